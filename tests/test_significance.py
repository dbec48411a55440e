"""Paired bootstrap: what it must say of systems whose difference is known, and what the command prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_punct import report
from kaldi_punct.cli import main
from kaldi_punct.errors import FormatError
from kaldi_punct.scoring import Rates, score
from kaldi_punct.significance import Comparison, Difference, compare, compare_tables

MARKS = (",", ".", "?")


def draw_rates(draw: Callable[..., int]) -> dict[str, Rates]:
    out = {}
    for mark in MARKS:
        n_ref, n_hyp = draw(st.integers(0, 6)), draw(st.integers(0, 6))
        out[mark] = Rates(n_ref, n_hyp, draw(st.integers(0, min(n_ref, n_hyp))))
    return out


@st.composite
def systems(draw: Callable[..., int]) -> tuple[dict[str, dict[str, Rates]], dict[str, dict[str, Rates]]]:
    """Two systems on the same 2 to 6 units."""
    names = [f"u{k}" for k in range(draw(st.integers(2, 6)))]
    return {u: draw_rates(draw) for u in names}, {u: draw_rates(draw) for u in names}


def differences(result: Comparison) -> list[Difference]:
    return [*result.marks.values(), result.micro, result.macro]


few = settings(max_examples=40, deadline=None)


@few
@given(systems())
def test_a_system_differs_in_nothing_from_itself(sides: tuple[dict[str, dict[str, Rates]], ...]) -> None:
    for d in differences(compare(sides[0], sides[0], n_samples=50)):
        assert (d.difference, d.ci95, d.p) == (0.0, (0.0, 0.0), 1.0)


@few
@given(systems())
def test_swapped_systems_differ_the_other_way(sides: tuple[dict[str, dict[str, Rates]], ...]) -> None:
    a, b = sides
    there, back = compare(a, b, n_samples=50), compare(b, a, n_samples=50)
    for x, y in zip(differences(there), differences(back), strict=True):
        assert (x.difference, x.p) == (-y.difference, y.p)
        assert x.ci95 == pytest.approx((-y.ci95[1], -y.ci95[0]))


@few
@given(systems(), st.randoms())
def test_the_order_of_units_has_no_part_in_it(sides: tuple[dict[str, dict[str, Rates]], ...], random: object) -> None:
    a, b = sides
    names = list(a)
    random.shuffle(names)  # type: ignore[attr-defined]
    assert compare({u: a[u] for u in names}, {u: b[u] for u in reversed(names)}, n_samples=50) == compare(
        a, b, n_samples=50
    )


@few
@given(systems())
def test_the_interval_leaves_out_0_exactly_where_p_is_small(sides: tuple[dict[str, dict[str, Rates]], ...]) -> None:
    for d in differences(compare(*sides, n_samples=999)):
        assert 0.0 < d.p <= 1.0
        low, high = d.ci95
        if d.p < 0.048:
            assert low > 0 or high < 0
        if d.p > 0.055:
            assert low <= 0 <= high


def unit(n_hit: int) -> dict[str, Rates]:
    return {".": Rates(10, 10, n_hit)}


def test_a_system_that_is_better_everywhere_is_better() -> None:
    a = {f"u{k:02}": unit(5) for k in range(20)}
    b = {f"u{k:02}": unit(6 + k % 3) for k in range(20)}
    result = compare(a, b, n_samples=1000)
    assert result.micro.p == pytest.approx(2 / 1001)
    assert (result.micro.a, result.micro.b) == (50.0, pytest.approx(69.5))
    assert 10 < result.micro.ci95[0] < result.micro.difference < result.micro.ci95[1] < 30


def test_p_is_that_of_the_binomial_where_that_is_known() -> None:
    """In 11 units B has one more, in 5 A has: the summed difference of a sample falls to 0 or below with P = 0.066."""
    a = {f"u{k:02}": unit(5 + (k >= 11)) for k in range(16)}
    b = {f"u{k:02}": unit(5 + (k < 11)) for k in range(16)}
    # Of 16 draws with probability 11/16 at most 8 are of the first kind.
    from math import comb

    below = sum(comb(16, n) * (11 / 16) ** n * (5 / 16) ** (16 - n) for n in range(9))
    assert compare(a, b, n_samples=20_000).micro.p == pytest.approx(2 * below, rel=0.05)


def test_chance_alone_is_rarely_significant() -> None:
    rng = np.random.default_rng(5)
    p = []
    for _ in range(100):
        a, b = ({f"u{k}": unit(int(n)) for k, n in enumerate(rng.integers(0, 11, 30))} for _ in range(2))
        p.append(compare(a, b, n_samples=200).micro.p)
    assert sum(x < 0.05 for x in p) <= 14
    assert sum(x < 0.5 for x in p) >= 30


def test_the_seed_and_the_number_of_samples_matter() -> None:
    a = {f"u{k}": unit(k % 7) for k in range(9)}
    b = {f"u{k}": unit(k % 5) for k in range(9)}
    one = compare(a, b, n_samples=100, seed=1)
    assert one == compare(a, b, n_samples=100, seed=1)
    assert one.micro.p != compare(a, b, n_samples=100, seed=2).micro.p
    assert one.micro.p != compare(a, b, n_samples=300, seed=1).micro.p
    assert (one.n_samples, one.seed, one.n_units) == (100, 1, 9)
    with pytest.raises(ValueError, match="n_samples: expected at least 1, got 0"):
        compare(a, b, n_samples=0)


def test_more_samples_than_a_block_are_all_drawn() -> None:
    a = {f"u{k}": unit(k % 7) for k in range(9)}
    b = {f"u{k}": unit(k % 5) for k in range(9)}
    assert compare(a, b, n_samples=999).micro.p * 500 == pytest.approx(
        round(compare(a, b, n_samples=999).micro.p * 500)
    )


def test_units_of_one_side_are_named_and_in_no_figure() -> None:
    a = {"u1": unit(5), "u2": unit(5), "u3": unit(0)}
    b = {"u2": unit(6), "u1": unit(6), "u9": unit(0)}
    result = compare(a, b, n_samples=50)
    assert (result.only_a, result.only_b, result.n_units) == (("u3",), ("u9",), 2)
    assert (result.micro.a, result.micro.b) == (50.0, 60.0)
    with pytest.raises(FormatError) as e:
        compare({"u1": unit(5)}, b)
    assert str(e.value) == (
        "expected at least two units that both systems have, got 1 (A has 1, B 3); "
        "compare systems that were scored on the same utterances"
    )


def test_marks_that_a_unit_does_not_count_are_none() -> None:
    a = {"u1": {".": Rates(1, 1, 1)}, "u2": {"?": Rates(1, 0, 0)}}
    result = compare(a, a, n_samples=20)
    assert result.rates_a == {".": Rates(1, 1, 1), "?": Rates(1, 0, 0)}


REF = "u1 Hello, you. Who?\nu2 Well, yes. No?\nu3 So it is.\n"
A = "u1 hello you. who.\nu2 well yes. no?\nu3 so it is.\n"
B = "u1 hello, you. who?\nu2 well, yes. no?\nu3 so it is?\n"


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in (("ref", REF), ("a", A), ("b", B)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("tables")
def test_figures_of_each_are_those_of_score() -> None:
    result = compare_tables("ref", "a", "b", n_samples=100)
    for rates, figures, name in (
        (result.rates_a, [d.a for d in differences(result)], "a"),
        (result.rates_b, [d.b for d in differences(result)], "b"),
    ):
        alone = score("ref", name)
        assert rates == alone.marks
        assert figures == pytest.approx([*(r.f1 for r in alone.marks.values()), alone.micro.f1, alone.macro_f1])


@pytest.mark.usefixtures("tables")
def test_words_may_differ() -> None:
    Path("a").write_text("u1 hello you. oh who.\nu2 yes. no?\nu3 so it is.\n")
    result = compare_tables("ref", "a", "b", n_samples=100)
    assert result.rates_a == score("ref", "a").marks


@pytest.mark.usefixtures("tables")
def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "--compare", "a", "b", "--n-samples", "500", "--seed", "4", "ref"]) == 0
    done = capsys.readouterr()
    lines = done.out.splitlines()
    assert lines[:3] == [
        "A: a",
        "B: b",
        "F1                 A       B   B - A     95 % interval        p   support",
    ]
    assert lines[3].startswith(",                0.0   100.0  +100.0")
    assert [line.split()[0] for line in lines[3:8]] == [",", ".", "?", "micro", "macro"]
    assert [line.split()[-1] for line in lines[3:8]] == ["2", "3", "2", "7", "7"]
    assert lines[8:] == ["paired bootstrap: 3 units, 500 samples, seed 4"]
    assert done.err.splitlines()[-1].endswith("Done 3, 0 errors")


@pytest.mark.usefixtures("tables")
def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "--json", "ref", "--compare", "a", "b"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    told = json.loads(out)
    assert (told.pop("name_a"), told.pop("name_b")) == ("a", "b")
    assert told == compare_tables("ref", "a", "b").as_dict()
    assert (told["n_samples"], told["seed"], told["n_units"]) == (10_000, 0, 3)
    assert told["a"]["?"]["support"] == 2
    assert told["f1"]["marks"][","]["difference"] == 100.0
    assert told["f1"]["micro"].keys() == {"a", "b", "difference", "ci95", "p"}


@pytest.mark.usefixtures("tables")
def test_what_cannot_be_compared_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ref").write_text(REF + "u4 Ah.\nu5 Oh.\nu6 Hm.\n")
    Path("a").write_text(A + "u4 ah.\nu9 what.\n")
    Path("b").write_text(B + "u5 oh.\n")
    assert main(["score", "--compare", "a", "b", "ref"]) == 0
    done = capsys.readouterr()
    for line in (
        "u5: expected in a, got no such utterance; not compared",
        "u4: expected in b, got no such utterance; not compared",
        "u6: expected in a and b, got no such utterance; not compared",
        "u9: expected in the reference, got no such utterance; not compared",
    ):
        assert f"ERROR: {line}" in done.err
    assert "not compared: 1 only in A, 1 only in B, 1 in neither, 1 unknown" in done.out
    assert done.err.splitlines()[-1].endswith("Done 3, 4 errors")
    assert len(report.compare_errors(compare_tables("ref", "a", "b"), "a", "b")) == 4


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["ref"], "<hyp>: expected a table to score, got none; give one, or two with --compare"),
        (["--compare", "a", "b", "ref", "a"], "<hyp>: expected none with --compare, got 'a'; leave it out"),
        (["--n-samples", "5", "ref", "a"], "--n-samples: expected only with --compare, got 5; leave it out"),
        (["--seed", "5", "ref", "a"], "--seed: expected only with --compare, got 5; leave it out"),
        (["--compare", "a", "b", "--n-samples", "0", "ref"], "--n-samples: expected at least 1, got 0"),
        (["--compare", "a", "b", "--seed", "-1", "ref"], "--seed: expected at least 0, got -1"),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", *arguments]) != 0
    assert text in capsys.readouterr().err
