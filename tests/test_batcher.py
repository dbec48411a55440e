"""The batcher: each request exactly one outcome, batches within the budget, nobody waits for company."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_punct.serve.batcher import Batcher, BatchReport, ClosedError, OverloadedError


@dataclass(frozen=True)
class Piece:
    """An example that knows its length and who sent it."""

    n_pieces: int
    tag: Any = None


class Model:
    """Answers each example with its tag, and remembers its batches and threads."""

    def __init__(self) -> None:
        self.batches: list[list[Piece]] = []
        self.threads: set[int] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()

    def infer(self, examples: Sequence[Piece]) -> list[Any]:
        self.threads.add(threading.get_ident())
        self.batches.append(list(examples))
        self.entered.set()
        assert self.gate.wait(20)
        if any(e.tag == "poison" for e in examples):
            raise ValueError("cannot swallow this")
        return [e.tag for e in examples]


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.perf_counter() + 10
    while not condition():
        assert time.perf_counter() < deadline, "waited 10 s in vain"
        await asyncio.sleep(0.001)


def run(
    test: Callable[..., Coroutine[Any, Any, None]], budget: int = 100, max_requests: int = 1000
) -> list[BatchReport]:
    """Runs a test with a batcher and closes it; returns what the batcher reported."""
    reports: list[BatchReport] = []

    async def main() -> None:
        batcher = Batcher(budget, max_requests, reports.append)
        try:
            await asyncio.wait_for(test(batcher, Model()), 30)
        finally:
            await batcher.close()

    asyncio.run(main())
    return reports


@settings(deadline=None, max_examples=40)
@given(
    requests=st.lists(st.lists(st.integers(1, 60), max_size=6), max_size=30),
    budget=st.integers(1, 200),
    cancelled=st.sets(st.integers(0, 29)),
)
def test_each_request_has_one_outcome_and_no_batch_exceeds_the_budget(
    requests: list[list[int]], budget: int, cancelled: set[int]
) -> None:
    async def test(batcher: Batcher, model: Model) -> None:
        tasks = [
            asyncio.create_task(batcher.submit(model.infer, [Piece(n, (r, i)) for i, n in enumerate(lengths)]))
            for r, lengths in enumerate(requests)
        ]
        await asyncio.sleep(0)
        for r in cancelled:
            if r < len(tasks):
                tasks[r].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for r, (outcome, lengths) in enumerate(zip(outcomes, requests, strict=True)):
            if isinstance(outcome, asyncio.CancelledError):
                assert r in cancelled
            else:
                assert not isinstance(outcome, BaseException)
                assert outcome.results == [(r, i) for i in range(len(lengths))]
        for batch in model.batches:
            assert len(batch) == 1 or max(e.n_pieces for e in batch) * len(batch) <= budget
        seen = [e.tag for batch in model.batches for e in batch]
        assert len(seen) == len(set(seen))
        assert batcher.n_waiting == 0

    run(test, budget)


def test_an_idle_batcher_computes_at_once_and_batches_grow_under_load() -> None:
    async def test(batcher: Batcher, model: Model) -> None:
        model.gate.clear()
        first = asyncio.create_task(batcher.submit(model.infer, [Piece(10, 0)]))
        await until(model.entered.is_set)
        assert [len(b) for b in model.batches] == [1]  # it did not wait for more
        rest = [asyncio.create_task(batcher.submit(model.infer, [Piece(10, i)])) for i in range(1, 18)]
        await until(lambda: batcher.n_waiting == 17)
        model.gate.set()
        answers = await asyncio.gather(first, *rest)
        assert [a.results for a in answers] == [[i] for i in range(18)]
        assert [len(b) for b in model.batches] == [1, 10, 7]
        assert len(model.threads) == 1
        assert threading.get_ident() not in model.threads

    reports = run(test, budget=100)
    assert [(r.n_examples, r.n_pieces, r.n_padded_pieces) for r in reports] == [
        (1, 10, 10),
        (10, 100, 100),
        (7, 70, 70),
    ]


def test_padding_counts_against_the_budget() -> None:
    async def test(batcher: Batcher, model: Model) -> None:
        model.gate.clear()
        plug = asyncio.create_task(batcher.submit(model.infer, [Piece(1)]))
        await until(model.entered.is_set)
        rest = [asyncio.create_task(batcher.submit(model.infer, [Piece(n)])) for n in (10, 30, 50, 10)]
        await until(lambda: batcher.n_waiting == 4)
        model.gate.set()
        await asyncio.gather(plug, *rest)
        # 10 + 30 pieces cost 60 padded; with 50 it would be 150.
        assert [[e.n_pieces for e in b] for b in model.batches] == [[1], [10, 30], [50, 10]]

    run(test, budget=100)


def test_a_long_request_takes_turns_with_short_ones() -> None:
    async def test(batcher: Batcher, model: Model) -> None:
        model.gate.clear()
        long = asyncio.create_task(batcher.submit(model.infer, [Piece(50, "long")] * 20))
        await until(model.entered.is_set)
        short = asyncio.create_task(batcher.submit(model.infer, [Piece(50, "short")]))
        await until(lambda: batcher.n_waiting == 2)
        model.gate.set()
        await asyncio.gather(long, short)
        tags = [[e.tag for e in b] for b in model.batches]
        assert tags[1] == ["long", "short"]
        assert sum(map(len, tags)) == 21

    run(test, budget=100)


def test_an_example_above_the_budget_goes_alone() -> None:
    async def test(batcher: Batcher, model: Model) -> None:
        answer = await batcher.submit(model.infer, [Piece(500, 1), Piece(5, 2)])
        assert answer.results == [1, 2]
        assert [len(b) for b in model.batches] == [1, 1]

    run(test, budget=100)


def test_different_models_do_not_share_a_batch_but_share_the_thread() -> None:
    async def test(batcher: Batcher, a: Model) -> None:
        b = Model()
        jobs = [batcher.submit((a if i % 2 else b).infer, [Piece(1, i)]) for i in range(10)]
        answers = await asyncio.gather(*jobs)
        assert [x.results for x in answers] == [[i] for i in range(10)]
        assert all(e.tag % 2 == 1 for batch in a.batches for e in batch)
        assert all(e.tag % 2 == 0 for batch in b.batches for e in batch)
        assert a.threads == b.threads

    run(test)


def test_a_cancelled_request_is_dropped_before_it_costs_anything_and_counted() -> None:
    async def test(batcher: Batcher, model: Model) -> None:
        model.gate.clear()
        plug = asyncio.create_task(batcher.submit(model.infer, [Piece(1, "plug")]))
        await until(model.entered.is_set)
        gone = asyncio.create_task(batcher.submit(model.infer, [Piece(1, "gone")] * 3))
        stays = asyncio.create_task(batcher.submit(model.infer, [Piece(1, "stays")]))
        await until(lambda: batcher.n_waiting == 2)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert (batcher.n_waiting, batcher.n_dropped) == (1, 1)
        model.gate.set()
        assert (await plug).results == ["plug"]
        assert (await stays).results == ["stays"]
        assert [e.tag for b in model.batches for e in b] == ["plug", "stays"]

    run(test)


def test_a_full_batcher_refuses_at_once_and_takes_requests_again_later() -> None:
    async def test(batcher: Batcher, _: Model) -> None:
        with batcher.admit(), batcher.admit():
            with pytest.raises(OverloadedError) as caught, batcher.admit():
                pass
            assert str(caught.value) == "expected at most 2 requests at once, got one more; try again later"
            assert batcher.n_admitted == 2
        with batcher.admit():
            assert batcher.n_admitted == 1

    run(test, max_requests=2)


def test_a_failing_example_does_not_take_its_batch_mates_along() -> None:
    async def test(batcher: Batcher, model: Model) -> None:
        model.gate.clear()
        plug = asyncio.create_task(batcher.submit(model.infer, [Piece(1, "plug")]))
        await until(model.entered.is_set)
        tags = ["a", "poison", "b"]
        tasks = [asyncio.create_task(batcher.submit(model.infer, [Piece(1, t)])) for t in tags]
        await until(lambda: batcher.n_waiting == 3)
        model.gate.set()
        outcomes = await asyncio.gather(plug, *tasks, return_exceptions=True)
        assert isinstance(outcomes[2], ValueError)
        assert [o.results for o in outcomes if not isinstance(o, BaseException)] == [["plug"], ["a"], ["b"]]

    run(test)


def test_a_model_that_loses_results_is_an_error_and_not_a_hang() -> None:
    async def test(batcher: Batcher, _: Model) -> None:
        with pytest.raises(AssertionError, match=r"1 examples gave 0 results\. This is a bug\."):
            await batcher.submit(lambda _: [], [Piece(1)])

    run(test)


def test_closing_computes_what_waits_and_refuses_what_is_new() -> None:
    async def main() -> None:
        batcher, model = Batcher(100, 10), Model()
        model.gate.clear()
        tasks = [asyncio.create_task(batcher.submit(model.infer, [Piece(60, i)])) for i in range(3)]
        await until(model.entered.is_set)
        closing = asyncio.create_task(batcher.close())
        await asyncio.sleep(0)
        text = "expected a running service, got one that is shutting down; try another server"
        with pytest.raises(ClosedError) as caught:
            await batcher.submit(model.infer, [Piece(1)])
        assert str(caught.value) == text
        with pytest.raises(ClosedError), batcher.admit():
            pass
        model.gate.set()
        assert [(await t).results for t in tasks] == [[0], [1], [2]]
        await closing

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_request_without_examples_is_answered_without_a_batch() -> None:
    async def test(batcher: Batcher, model: Model) -> None:
        answer = await batcher.submit(model.infer, [])
        assert (answer.results, answer.queue_s, answer.inference_s) == ([], 0.0, 0.0)
        assert model.batches == []

    run(test)


def test_times_are_measured() -> None:
    async def test(batcher: Batcher, _: Model) -> None:
        def slow(examples: Sequence[Piece]) -> list[Any]:
            time.sleep(0.05)
            return [None] * len(examples)

        first = asyncio.create_task(batcher.submit(slow, [Piece(60)]))
        second = asyncio.create_task(batcher.submit(slow, [Piece(60)]))
        a, b = await asyncio.gather(first, second)
        assert b.queue_s >= 0.05
        assert a.inference_s >= 0.05

    run(test, budget=100)
