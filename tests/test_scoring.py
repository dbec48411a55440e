"""Scores of punctuated text."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

import pytest

from kaldi_punct import report
from kaldi_punct.errors import FormatError
from kaldi_punct.labels import MARK_MAP, LabelledWord, LabelSet, join, split
from kaldi_punct.projection import project
from kaldi_punct.scoring import Rates, score, score_marks, score_words
from kaldi_punct.types import Case


def table(path: Path, lines: str) -> Path:
    path.write_text(lines, encoding="utf-8")
    return path


def test_rates() -> None:
    r = Rates(n_ref=4, n_hyp=2, n_hit=1)
    assert (r.precision, r.recall, r.support) == (50.0, 25.0, 4)
    assert r.f1 == pytest.approx(100 * 2 * 0.5 * 0.25 / 0.75)
    assert Rates(0, 0, 0).f1 == Rates(0, 0, 0).precision == Rates(0, 0, 0).recall == 0.0


# ref:  a,  b.  c  d?  e.   hyp: a, b? c, d? e
REF, HYP = "a, b. c d? e.", "a, b? c, d? e"


def test_marks_by_hand() -> None:
    s = score_words(split(REF), split(HYP))
    assert s.marks == {",": Rates(1, 2, 1), ".": Rates(2, 0, 0), "?": Rates(1, 2, 1)}
    assert s.micro == Rates(4, 4, 2)
    assert s.slots == Rates(4, 4, 3)
    assert (s.n_slots, s.n_slots_right) == (5, 2)
    assert s.slot_accuracy == pytest.approx(40)
    assert s.slot_error_rate == pytest.approx(75)
    assert s.macro_f1 == pytest.approx((200 / 3 + 0 + 200 / 3) / 3)
    assert s.macro_precision == pytest.approx((50 + 0 + 50) / 3)
    assert s.macro_recall == pytest.approx((100 + 0 + 100) / 3)


def test_a_mark_that_nobody_has_is_no_part_of_the_macro_mean() -> None:
    s = score_words(split("a, b"), split("a, b"))
    assert (s.macro_f1, s.micro.f1) == (100.0, 100.0)


def test_case_by_hand() -> None:
    s = score_words(split("Yes McDonald, of NASA went"), split("yes Mcdonald, of NASA Went"))
    assert s.cases == {
        Case.LOWER: Rates(2, 2, 1),
        Case.CAPITALIZED: Rates(1, 2, 0),
        Case.UPPER: Rates(1, 1, 1),
        Case.MIXED: Rates(1, 0, 0),
    }
    assert (s.n_cases, s.n_cases_right, s.case_accuracy) == (5, 2, 40.0)


def test_words_may_differ_and_lost_marks_are_not_missed() -> None:
    # "Well." has no word before it: lost. "2020." goes onto "twenty"; the inserted "so" rightly has none.
    s = score_words(split("Well. In 2020. Then we"), split("In two thousand twenty. Then so we"))
    assert s.micro == Rates(1, 1, 1)
    assert (s.n_marks_lost, s.lost_share) == (1, 50.0)
    assert (s.n_ref_words, s.n_word_errors) == (5, 5)
    assert "marks lost with deleted words, not scored: 1 (50.0 %)" in str(s)
    # The case of "two", "thousand", "twenty" and "so" is unknown.
    assert s.n_cases == 3


def test_non_words_have_no_slot() -> None:
    s = score_words(split("so [noise] yes."), split("so [noise] yes."))
    assert (s.n_slots, s.micro.f1, s.n_cases) == (2, 100.0, 2)


def test_unknown_marks_and_cases_are_not_scored() -> None:
    ref = [LabelledWord("a", None, None), LabelledWord("b", ".", Case.LOWER)]
    s = score_words(ref, [LabelledWord("a", ","), LabelledWord("b", ".")])
    assert (s.n_slots, s.n_cases, s.micro) == (1, 1, Rates(1, 1, 1))


def test_mask_chooses_slots() -> None:
    ref, hyp = split(REF), split(HYP)
    inner = score_words(ref, hyp, mask=[True, False, True, True, False])
    assert inner.micro == Rates(2, 3, 2)
    end = score_words(ref, hyp, mask=[False, True, False, False, True])
    assert end.micro == Rates(2, 1, 0)
    with pytest.raises(ValueError, match="shorter"):
        score_words(ref, hyp, mask=[True])


def test_score_marks_is_score_words_of_equal_words() -> None:
    ref, hyp = split(REF), split(HYP)
    flat = score_marks(
        [w.mark for w in ref], [w.mark for w in hyp], [w.case for w in ref], [w.case for w in hyp], mask=[True] * 5
    )
    whole = score_words(ref, hyp)
    assert (flat.marks, flat.micro, flat.cases, flat.n_slots) == (whole.marks, whole.micro, whole.cases, whole.n_slots)
    assert score_marks([".", None], [".", ","]).micro == Rates(1, 1, 1)
    assert score_marks([".", "."], [".", "."], mask=[True, False]).micro == Rates(1, 1, 1)
    assert not score_marks(["."], ["."]).cases
    with pytest.raises(ValueError, match="longer"):
        score_marks(["."], [".", ","])


def test_the_label_set_decides_what_is_a_mark() -> None:
    labels = LabelSet(("", ",", ".", "?", "!"), {**MARK_MAP, "!": "!"})
    s = score_words(split("Oh! Yes.", labels), split("Oh. Yes!", labels), labels=labels)
    assert s.marks["!"] == Rates(1, 1, 0)
    assert s.line() == "%F1 0.0 [ C 0.0 FS 0.0 Q 0.0 E 0.0 ]"


def test_tables_are_matched_by_key(tmp_path: Path) -> None:
    ref = table(tmp_path / "ref", "u1 Hello, you.\nu2 Yes.\nu3 No?\n")
    hyp = table(tmp_path / "hyp", "u3 No.\nu1 Hello, you.\nu9 What?\n")
    s = score(ref, hyp)
    assert s.marks == {",": Rates(1, 1, 1), ".": Rates(1, 2, 1), "?": Rates(1, 0, 0)}
    assert (s.n_utts, s.missing, s.unknown, s.n_errors) == (2, ("u2",), ("u9",), 2)
    assert "not scored: 1 utterances missing, 1 unknown" in str(s)
    assert report.errors(s) == [
        "u2: expected in the hypothesis, got no such utterance; not scored",
        "u9: expected in the reference, got no such utterance; not scored",
    ]


def test_labels_of_score_reach_the_texts(tmp_path: Path) -> None:
    ref = table(tmp_path / "ref", "u1 Oh! Yes.\n")
    assert score(ref, ref).marks["."] == Rates(2, 2, 2)
    assert score(ref, ref, LabelSet(("", "."), {".": "."})).marks == {".": Rates(1, 1, 1)}


def test_an_utterance_without_words_loses_its_marks(tmp_path: Path) -> None:
    ref = table(tmp_path / "ref", "u1 Hello, you.\nu2 Yes.\n")
    s = score(ref, table(tmp_path / "hyp", "u1\nu2 Yes.\n"))
    assert (s.micro, s.n_marks_lost, s.n_word_errors, s.missing) == (Rates(1, 1, 1), 2, 2, ())


@pytest.mark.parametrize("name", ["text_punct", "text_punct.gz"])
def test_a_data_directory_stands_for_its_table(tmp_path: Path, name: str) -> None:
    text = b"u1 Hello, you.\n"
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    hyp = table(tmp_path / "hyp", "u1 Hello, you?\n")
    assert score(tmp_path, hyp) == score(hyp=hyp, ref=tmp_path / name)
    assert score(tmp_path, hyp).micro == Rates(2, 2, 1)


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    ref = table(tmp_path / "ref", "u1 a.\n")
    with pytest.raises(FormatError) as e:
        score(ref, table(tmp_path / "other", "v1 a.\n"))
    assert str(e.value) == (
        f"{tmp_path}/other: expected the utterances of {tmp_path}/ref (first 'u1'), got none of them (first 'v1'); "
        "score tables that are keyed alike, by segment or by call"
    )
    with pytest.raises(FormatError) as e:
        score(ref, table(tmp_path / "twice", "u1 a.\nu1 b.\n"))
    assert str(e.value) == f"{tmp_path}/twice:2: expected each key once, got 'u1' again; remove one of the lines"
    with pytest.raises(FormatError) as e:
        score(table(tmp_path / "empty", ""), ref)
    assert str(e.value) == (
        f"{tmp_path}/empty: expected lines '<utt-id> <words with marks>', got an empty table; check the path"
    )
    (tmp_path / "dir").mkdir()
    with pytest.raises(FormatError) as e:
        score(tmp_path / "dir", ref)
    assert str(e.value) == (
        f"{tmp_path}/dir: expected a data directory with a table text_punct, got none in it; name the table itself"
    )


def test_the_interval_holds_the_figure_and_narrows(tmp_path: Path) -> None:
    def of(n: int) -> tuple[float, float]:
        ref = table(tmp_path / "ref", "".join(f"u{k:04} a, b.\n" for k in range(n)))
        hyp = table(tmp_path / "hyp", "".join(f"u{k:04} a, b{'.?'[k % 2]}\n" for k in range(n)))
        s = score(ref, hyp)
        assert s.micro_f1_ci95 is not None
        assert s.micro.f1 == 75.0
        assert s.micro_f1_ci95 == score(ref, hyp).micro_f1_ci95
        return s.micro_f1_ci95

    few, many = of(10), of(400)
    assert few[0] < many[0] < 75.0 < many[1] < few[1]
    # Half of the utterances get 100, half 50: the mean of n has a standard error of 25 / sqrt(n).
    assert many[1] - many[0] == pytest.approx(2 * 1.96 * 25 / 20, rel=0.15)
    assert score_words(split(REF), split(HYP)).micro_f1_ci95 is None


def test_text_report(tmp_path: Path) -> None:
    ref = table(tmp_path / "ref", f"u1 {REF}\n")
    hyp = table(tmp_path / "hyp", f"u1 {HYP}\n")
    _, text = report.run(ref, hyp)
    assert text.splitlines() == [
        f"%F1 50.0 [ C 66.7 FS 0.0 Q 66.7 ] {hyp}",
        "mark               P       R      F1   support",
        ",               50.0   100.0    66.7         1",
        ".                0.0     0.0     0.0         2",
        "?               50.0   100.0    66.7         1",
        "micro           50.0    50.0    50.0         4",
        "macro           33.3    66.7    44.4         4",
        "any mark        75.0    75.0    75.0         4",
        "slots: 5, 40.0 % right; error rate 75.0 %",
        "case               P       R      F1   support",
        "lower          100.0   100.0   100.0         5",
        "capitalized      0.0     0.0     0.0         0",
        "upper            0.0     0.0     0.0         0",
        "mixed            0.0     0.0     0.0         0",
        "case: 5 words, 100.0 % right",
    ]


def test_json_report(tmp_path: Path) -> None:
    ref = table(tmp_path / "ref", f"u1 {REF}\nu2 x.\n")
    hyp = table(tmp_path / "hyp", f"u1 {HYP}\n")
    s, text = report.run(ref, hyp, as_json=True)
    assert "\n" not in text
    told = json.loads(text)
    assert told.pop("name") == str(hyp)
    assert told == s.as_dict()
    assert told["marks"]["?"] == {
        "precision": 50.0,
        "recall": 100.0,
        "f1": pytest.approx(66.667, abs=1e-3),
        "support": 1,
    }
    assert told["micro"]["f1"] == 50.0
    assert told["missing"] == ["u2"]


def test_markdown_report() -> None:
    s = score_words(split(REF), split(HYP))
    assert report.to_markdown({"text": s, "none": score_marks(["."], ["."])}).splitlines() == [
        "|  | `,` | `.` | `?` | micro | macro | case % | lost % |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| text | 66.7 (1) | 0.0 (2) | 66.7 (1) | 50.0 | 44.4 | 100.0 | 0.0 |",
        "| none | 0.0 (0) | 100.0 (1) | 0.0 (0) | 100.0 | 100.0 |  | 0.0 |",
    ]


@pytest.mark.shared
def test_a_real_call_scored_on_asr_words(shared: Path, tmp_path: Path) -> None:
    """The reference itself, carried onto what Kaldi heard, has every mark that could be kept and none besides."""
    folder = shared / "data" / "earnings21" / "dev"
    hyps: dict[str, list[str]] = defaultdict(list)
    with gzip.open(folder / "ctm.gz", "rt", encoding="utf-8") as f:
        for line in f:
            call, _, _, _, word, *_ = line.rstrip("\n").split(" ")
            hyps[call].append(word)
    with gzip.open(folder / "text_punct.call.gz", "rt", encoding="utf-8") as f:
        call, text = f.readline().rstrip("\n").split(" ", 1)
    carried = join(project(split(text), hyps[call]).words)
    s = score(table(tmp_path / "ref", f"{call} {text}\n"), table(tmp_path / "hyp", f"{call} {carried}\n"))
    assert s.micro.f1 == s.macro_f1 == s.case_accuracy == 100.0
    assert 0 < s.lost_share < 10
