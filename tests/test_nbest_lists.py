"""N-best lists in a directory of tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaldi_punct.cli import main
from kaldi_punct.errors import FormatError, UtteranceError
from kaldi_punct.kaldi.lattice_tables import load_decoder, read_lattices
from kaldi_punct.kaldi.nbest_lists import NbestLists
from kaldi_punct.types import Hypothesis, Word

SORT = "sort the CTM: sort -s -k1,1 -k2,2 -k3,3n"
TABLES = {
    "words": "a-1 hello you\na-2 hello who\na-10 oh\nb-x-1 yes\n",
    "lm_cost": "a-1 1.5\na-2 2\na-10 3\nb-x-1 4\n",
    "ac_cost": "a-1 10\na-2 20\na-10 30\nb-x-1 -40.5\n",
    "ctm": "a-1 1 0.10 0.20 hello 0.5\na-1 1 0.30 0.20 you\na-2 1 0.10 0.25 hello\na-2 1 0.35 0.20 who\n",
}


def write(directory: Path, **changes: str | None) -> Path:
    directory.mkdir(exist_ok=True)
    for name, text in {**TABLES, **changes}.items():
        if text is not None:
            (directory / name).write_text(text)
    return directory


def test_lists_are_read_by_utterance(tmp_path: Path) -> None:
    lists = NbestLists(write(tmp_path / "n"))
    assert (lists.has_costs, lists.has_times) == (True, True)
    assert "a" in lists
    assert "b-x" in lists
    assert "b" not in lists
    first = Hypothesis((Word("hello", 0.1, 0.2, 0.5), Word("you", 0.3, 0.2)), 1.5, 10.0)
    second = Hypothesis((Word("hello", 0.1, 0.25), Word("who", 0.35, 0.2)), 2.0, 20.0)
    assert lists.read("a", 2) == ((1, first), (2, second))
    # The tenth has no line in the ctm: its word has no times.
    assert lists.read("a", 10) == ((1, first), (2, second), (10, Hypothesis((Word("oh"),), 3.0, 30.0)))
    assert lists.read("b-x", 1) == ((1, Hypothesis((Word("yes"),), 4.0, -40.5)),)


def test_times_and_speaker_are_those_of_the_utterance(tmp_path: Path) -> None:
    [(_, h)] = NbestLists(write(tmp_path / "n")).read("a", 1, start_s=5.0, spk_id="s")
    assert h.words == (Word("hello", 5.1, 0.2, 0.5, "s"), Word("you", 5.3, 0.2, None, "s"))


def test_costs_and_times_may_be_missing(tmp_path: Path) -> None:
    lists = NbestLists(write(tmp_path / "n", lm_cost=None, ac_cost=None, ctm=None))
    assert (lists.has_costs, lists.has_times) == (False, False)
    assert lists.read("a", 1) == ((1, Hypothesis((Word("hello"), Word("you")))),)


def test_lines_of_an_utterance_may_stand_apart_and_in_any_order(tmp_path: Path) -> None:
    words = "a-2 two\nb-1 other\na-1 one\n"
    lists = NbestLists(write(tmp_path / "n", words=words, lm_cost=None, ac_cost=None, ctm=None))
    assert [(r, h.words[0].word) for r, h in lists.read("a", 5)] == [(1, "one"), (2, "two")]


def test_a_hypothesis_may_be_empty(tmp_path: Path) -> None:
    lists = NbestLists(write(tmp_path / "n", words="a-1\na-2 \n", ctm=None))
    assert [h.words for _, h in lists.read("a", 2)] == [(), ()]


def test_a_word_without_frames_has_no_times(tmp_path: Path) -> None:
    lists = NbestLists(write(tmp_path / "n", ctm="a-1 1 0.10 0.20 hello\n"))
    assert lists.read("a", 1)[0][1].words == (Word("hello", 0.1, 0.2), Word("you"))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"words": None},
            "{n}: expected N-best lists (words, lm_cost, ac_cost, ctm), got no table words; {w}",
        ),
        (
            {"words": "a-1 b\nhello you\n"},
            "{n}/words:2: expected a key '<utt-id>-<rank>', got 'hello you'; write the lists with kaldi-punct nbest",
        ),
        (
            {"lm_cost": "a-1 1.5\n\n"},
            "{n}/lm_cost:2: expected a key '<utt-id>-<rank>', got ''; write the lists with kaldi-punct nbest",
        ),
    ],
)
def test_what_is_no_list(tmp_path: Path, changes: dict[str, str | None], text: str) -> None:
    with pytest.raises(FormatError) as e:
        NbestLists(write(tmp_path / "n", **changes))
    assert str(e.value) == text.format(n=tmp_path / "n", k=SORT, w="write them with kaldi-punct nbest", c="ac_cost")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"ac_cost": "a-1 10\na-10 3\n"},
            "a: expected a cost of each hypothesis in {n}/ac_cost, got none of 'a-2'; are words and {c} of one run?",
        ),
        (
            {"ac_cost": "a-1 10\na-2 ten\n"},
            "{n}/ac_cost:2: expected '<utt-id>-<rank> <cost>', got cost 'ten'; write the lists with kaldi-punct nbest",
        ),
        (
            {"ctm": "a-1 1 0.10 0.20 hello\na-1 1 0.30 0.20 me\n"},
            "{n}/ctm:2: expected the words of 'a-1' in {n}/words, got 'me'; are words and ctm of one run?",
        ),
        (
            {"ctm": "a-1 1 0.50 0.20 hello\na-1 1 0.30 0.20 you\n"},
            "{n}/ctm:2: expected times of 'a-1' that go on, got 'you' at 0.3 s after 'hello' at 0.5 s; {k}",
        ),
    ],
)
def test_a_list_that_does_not_fit(tmp_path: Path, changes: dict[str, str | None], text: str) -> None:
    lists = NbestLists(write(tmp_path / "n", **changes))
    with pytest.raises((FormatError, UtteranceError)) as e:
        lists.read("a", 2)
    assert str(e.value) == text.format(n=tmp_path / "n", k=SORT, w="write them with kaldi-punct nbest", c="ac_cost")


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    path = write(tmp_path / "n")
    (path / "words").write_bytes(b"a-1 ok\na-2 \xff\n")
    with pytest.raises(FormatError) as e:
        NbestLists(path).read("a", 2)
    assert str(e.value) == f"{path}/words:2: expected UTF-8, got other bytes"


def test_what_the_command_writes_comes_back(mini: Path, tmp_path: Path) -> None:
    """Word for word and cost for cost what the lattices hold, times to the hundredth of the table."""
    lang = mini / "lang"
    files = {"word_boundary": lang / "phones" / "word_boundary.int", "transition_model": mini / "trans.mdl"}
    given = ["--acoustic-scale", "0.1", "--frame-shift", "0.03"]
    for name, path in files.items():
        given += [f"--{name.replace('_', '-')}", str(path)]
    assert main(["nbest", "--n", "3", *given, str(mini / "decode"), str(lang / "words.txt"), str(tmp_path / "n")]) == 0
    lists = NbestLists(tmp_path / "n")
    decoder = load_decoder(words=lang / "words.txt", acoustic_scale=0.1, frame_shift_s=0.03, **files)
    archive = sorted((mini / "decode").glob("lat.*.gz"))[0]
    for n, (utt_id, lattice) in enumerate(read_lattices(f"ark:{archive}")):
        if n == 3:
            break
        ours = [h for _, h in lists.read(utt_id, 3)]
        for our, its in zip(ours, decoder.nbest(lattice, 3), strict=True):  # type: ignore[arg-type]
            assert [w.word for w in our.words] == [w.word for w in its.words]
            assert our.graph_cost == pytest.approx(its.graph_cost, rel=1e-5)
            assert our.acoustic_cost == pytest.approx(its.acoustic_cost, rel=1e-5)
            assert [w.start_s for w in our.words] == pytest.approx([w.start_s for w in its.words], abs=0.0051)
