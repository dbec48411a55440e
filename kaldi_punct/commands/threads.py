"""Work on a table's entries in several threads, answers in the table's order (``--nj``).

The native core gives Python's lock back while it computes, so that threads of one process share the work and one copy
of the decoder's files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from kaldi_punct.errors import KaldiPunctError

T = TypeVar("T")
R = TypeVar("R")
_LOOK_AHEAD = 2  # entries in work or waiting, for each thread: enough that none idles while a long one is awaited


def map_entries(
    work: Callable[[str, T], R], entries: Iterable[tuple[str, T | KaldiPunctError]], n_threads: int
) -> Iterator[tuple[str, R | KaldiPunctError]]:
    """``work(key, value)`` of each entry, in their order; what it returns should be all of the answer, not a generator.

    An entry that is an error, or whose work raises a KaldiPunctError, comes as that error in its place. Entries are
    read in the caller's thread, at most ``2 * n_threads`` ahead of the answer given, so memory does not grow with the
    table. Where the table breaks, the answers before that place come first.

    Args:
        work: may run in any thread, several at a time.
        entries: a table, as ``read_lattices`` gives it.
        n_threads: at least 1; 1 works in the caller's thread.

    Raises:
        what reading the entries raises, and what ``work`` raises beside KaldiPunctError.
    """
    if n_threads == 1:
        for key, value in entries:
            yield _answer(work, key, value)
        return
    # Not a with block: leaving it would first do the work that nobody will ask for.
    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="nj")
    try:
        yield from _in_order(work, iter(entries), pool, _LOOK_AHEAD * n_threads)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _in_order(
    work: Callable[[str, T], R], entries: Iterator[tuple[str, T | KaldiPunctError]], pool: ThreadPoolExecutor, most: int
) -> Iterator[tuple[str, R | KaldiPunctError]]:
    open_work: deque[Future[tuple[str, R | KaldiPunctError]]] = deque()
    at_end, broken = False, None
    while True:
        while not at_end and len(open_work) < most:
            try:
                key, value = next(entries)
            except StopIteration:
                at_end = True
            except Exception as e:  # a broken table: its turn comes after the answers to what was read
                at_end, broken = True, e
            else:
                open_work.append(pool.submit(_answer, work, key, value))
        if not open_work:
            break
        yield open_work.popleft().result()
    if broken is not None:
        raise broken


def _answer(work: Callable[[str, T], R], key: str, value: T | KaldiPunctError) -> tuple[str, R | KaldiPunctError]:
    if isinstance(value, KaldiPunctError):
        return key, value
    try:
        return key, work(key, value)
    except KaldiPunctError as e:
        return key, e
