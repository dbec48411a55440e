"""Requests' examples -> padded batches -> one inference thread -> each request's results.

A batch is whatever waits when the thread is free (continuous pull): nothing waits for company, and batches grow with
load by themselves. Requests take turns, so that a whole recording does not hold up the short ones behind it.
Knows neither gRPC nor torch.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from kaldi_punct.errors import ServeError

Infer = Callable[[Sequence[Any]], list[Any]]


class Sized(Protocol):
    """What the batcher needs to know of an example."""

    @property
    def n_pieces(self) -> int:
        """Length in pieces, before padding."""


class OverloadedError(ServeError):
    """The service holds as many requests as it may; come again later."""


class ClosedError(ServeError):
    """The service is shutting down."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The results of one request.

    Attributes:
        results: one for each example, in order.
        queue_s: from submission until its first batch began, seconds.
        inference_s: the time of all the batches it was in, seconds.
    """

    results: list[Any]
    queue_s: float
    inference_s: float


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What one batch was, for the metrics.

    Attributes:
        n_examples: how many it held.
        n_pieces: their pieces without padding.
        n_padded_pieces: longest x count: what was computed.
        inference_s: seconds in the model.
    """

    n_examples: int
    n_pieces: int
    n_padded_pieces: int
    inference_s: float


@dataclass(slots=True, eq=False)
class _Job:
    """One request in the queue: examples not yet taken, and the place for the results of all."""

    infer: Infer
    examples: Sequence[Any]
    done: asyncio.Future[list[Any]]
    results: list[Any]
    n_taken: int = 0
    n_missing: int = 0
    submitted_s: float = field(default_factory=time.perf_counter)
    started_s: float | None = None
    inference_s: float = 0.0


class Batcher:
    """Owns the queue and the inference thread. All its methods belong to one event loop.

    Args:
        max_batch_pieces: a batch holds examples while longest x count stays within this; a longer one goes alone.
        max_requests: requests held at once, from ``admit`` on.
        on_batch: told about each batch.
    """

    def __init__(
        self, max_batch_pieces: int, max_requests: int, on_batch: Callable[[BatchReport], None] | None = None
    ) -> None:
        self.max_batch_pieces = max_batch_pieces
        self.max_requests = max_requests
        self.n_admitted = 0
        self.n_dropped = 0  # requests whose caller went away before all their examples were computed
        self._on_batch = on_batch
        self._jobs: deque[_Job] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inference")
        self._task = asyncio.create_task(self._run())

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Holds one of the ``max_requests`` places.

        Raises:
            OverloadedError: all are taken; raised at once.
            ClosedError: ``close`` was called.
        """
        self._check_open()
        if self.n_admitted >= self.max_requests:
            raise OverloadedError(
                f"expected at most {self.max_requests} requests at once, got one more; try again later"
            )
        self.n_admitted += 1
        try:
            yield
        finally:
            self.n_admitted -= 1

    async def submit(self, infer: Infer, examples: Sequence[Sized]) -> Answer:
        """The results of ``infer`` for examples, computed in batches with other callers' examples.

        Cancelling the caller drops what is not yet computed.

        Args:
            infer: a model; only examples of the same one meet in a batch.
            examples: of one request; may be empty.

        Raises:
            ClosedError: ``close`` was called.
            Exception: what ``infer`` raised for these examples by themselves.
        """
        self._check_open()
        if not examples:
            return Answer([], 0.0, 0.0)
        job = _Job(infer, examples, asyncio.get_running_loop().create_future(), [None] * len(examples))
        job.n_missing = len(examples)
        self._jobs.append(job)
        self._wake.set()
        try:
            results = await job.done
        except asyncio.CancelledError:
            self.n_dropped += 1
            raise
        finally:
            self._forget(job)
        assert job.started_s is not None, "a job was done before it began. This is a bug."
        return Answer(results, job.started_s - job.submitted_s, job.inference_s)

    @property
    def n_waiting(self) -> int:
        """Requests with examples that no batch has taken yet."""
        return len(self._jobs)

    async def close(self) -> None:
        """Takes nothing new, computes what waits, and ends the thread."""
        self._closing = True
        self._wake.set()
        await self._task
        self._thread.shutdown()

    def _check_open(self) -> None:
        if self._closing:
            raise ClosedError("expected a running service, got one that is shutting down; try another server")

    def _forget(self, job: _Job) -> None:
        # Usually the job has left the queue already, or is near its head.
        if job.n_taken < len(job.examples):
            job.n_taken = len(job.examples)
            self._jobs.remove(job)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            batch = self._next_batch()
            if batch:
                await self._compute(batch)
            elif self._closing:
                return
            else:
                self._wake.clear()

    def _next_batch(self) -> list[tuple[_Job, int]]:
        """(job, index of its example) of the next batch: first come, first served, one example a job and round."""
        batch: list[tuple[_Job, int]] = []
        longest = 0
        while self._jobs:
            job = self._jobs[0]
            if job.done.done():  # cancelled or failed, and its caller has not run yet
                self._forget(job)
                continue
            example = job.examples[job.n_taken]
            longest = max(longest, example.n_pieces)
            fits = not batch or (job.infer == batch[0][0].infer and longest * (len(batch) + 1) <= self.max_batch_pieces)
            if not fits:
                break
            batch.append((job, job.n_taken))
            job.n_taken += 1
            self._jobs.popleft()
            if job.n_taken < len(job.examples):
                self._jobs.append(job)
        return batch

    async def _compute(self, batch: list[tuple[_Job, int]]) -> None:
        """Runs one batch and hands out the results; of a batch that fails each example is tried by itself."""
        started_s = time.perf_counter()
        for job, _ in batch:
            if job.started_s is None:
                job.started_s = started_s
        examples = [job.examples[i] for job, i in batch]
        try:
            loop = asyncio.get_running_loop()
            results = await loop.run_in_executor(self._thread, batch[0][0].infer, examples)
            if len(results) != len(examples):
                raise AssertionError(f"{len(examples)} examples gave {len(results)} results. This is a bug.")
        except Exception as e:  # whatever the model raises belongs to whoever asked for it, not to the queue
            if len(batch) > 1:
                for item in batch:
                    await self._compute([item])
            else:
                self._fail(batch[0][0], e)
            return
        inference_s = time.perf_counter() - started_s
        lengths = [e.n_pieces for e in examples]
        if self._on_batch is not None:
            self._on_batch(BatchReport(len(batch), sum(lengths), max(lengths) * len(batch), inference_s))
        for job in {id(job): job for job, _ in batch}.values():
            job.inference_s += inference_s
        for (job, i), result in zip(batch, results, strict=True):
            job.results[i] = result
            job.n_missing -= 1
            if job.n_missing == 0 and not job.done.done():
                job.done.set_result(job.results)

    def _fail(self, job: _Job, error: Exception) -> None:
        if not job.done.done():
            job.done.set_exception(error)
