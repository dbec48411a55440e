"""Work shared between threads: order, errors in their place, how far ahead is read."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from kaldi_punct.commands.threads import map_entries
from kaldi_punct.errors import FormatError, KaldiPunctError, UtteranceError


def numbers(n: int) -> Iterator[tuple[str, int | KaldiPunctError]]:
    for i in range(n):
        yield f"u{i}", i


@pytest.mark.parametrize("n_threads", [1, 2, 7])
def test_answers_come_in_order(n_threads: int) -> None:
    def work(key: str, value: int) -> str:
        time.sleep(0.002 * (value % 3 == 0))  # later ones are ready first
        return f"{key}={value}"

    assert list(map_entries(work, numbers(40), n_threads)) == [(f"u{i}", f"u{i}={i}") for i in range(40)]
    assert list(map_entries(work, numbers(0), n_threads)) == []


@pytest.mark.parametrize("n_threads", [1, 3])
def test_errors_stand_in_their_place(n_threads: int) -> None:
    read, raised = UtteranceError("read"), UtteranceError("raised")

    def work(key: str, value: int) -> int:
        if value == 2:
            raise raised
        return value

    entries: list[tuple[str, int | KaldiPunctError]] = [("a", 1), ("b", read), ("c", 2), ("d", 3)]
    assert list(map_entries(work, entries, n_threads)) == [("a", 1), ("b", read), ("c", raised), ("d", 3)]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_what_came_before_a_broken_table_is_given(n_threads: int) -> None:
    def broken() -> Iterator[tuple[str, int | KaldiPunctError]]:
        yield from numbers(3)
        raise FormatError("cut short")

    got = []
    with pytest.raises(FormatError, match=r"^cut short$"):
        for key, _ in map_entries(lambda _, value: value, broken(), n_threads):
            got.append(key)
    assert got == ["u0", "u1", "u2"]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_other_errors_of_the_work_pass(n_threads: int) -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_entries(lambda _, value: 1 // value, numbers(3), n_threads))


def test_reads_no_further_ahead_than_it_says() -> None:
    n_read = 0

    def counted() -> Iterator[tuple[str, int | KaldiPunctError]]:
        nonlocal n_read
        for entry in numbers(1000):
            n_read += 1
            yield entry

    for n_given, _ in enumerate(map_entries(lambda _, value: value, counted(), 3), 1):
        assert n_read <= n_given + 5
        if n_given == 50:
            break
    assert n_read < 60


def test_threads_work_at_the_same_time() -> None:
    met = threading.Barrier(3, timeout=20)  # opens only if three are at work together
    assert len(list(map_entries(lambda _, value: met.wait(), numbers(3), 3))) == 3


def test_leaving_early_ends_the_threads() -> None:
    before = threading.active_count()
    n_done = 0

    def work(key: str, value: int) -> None:
        nonlocal n_done
        n_done += 1

    entries = map_entries(work, numbers(1000), 2)
    next(entries)
    entries.close()
    assert threading.active_count() == before
    assert n_done <= 4
