"""Punctuated data directories: written whole or not at all, their parts, and what they hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from folders import contents, write
from hypothesis import given
from hypothesis import strategies as st

from kaldi_punct.errors import FormatError
from kaldi_punct.labels import LabelledWord, split
from kaldi_punct.preparation.cutting import cut_reference, to_text
from kaldi_punct.preparation.distribution import SetCounts
from kaldi_punct.preparation.subsets import drawn_order, split_calls, take_hours
from kaldi_punct.preparation.writing import new_data_dir

Run = Callable[..., SimpleNamespace]


class TestWriting:
    def test_a_directory_is_there_when_it_is_whole(self, tmp_path: Path) -> None:
        with new_data_dir(tmp_path / "d") as writer:
            writer.write("text_punct", "u1", "Well, yes.")
            assert not (tmp_path / "d").exists()
        assert contents(tmp_path / "d") == {"text_punct": "u1 Well, yes.\n"}
        assert writer.counts is not None
        assert writer.counts.n_words == 2
        assert [p.name for p in tmp_path.iterdir()] == ["d"]

    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
    def test_what_breaks_off_leaves_what_was_there(self, tmp_path: Path, error: type[BaseException]) -> None:
        write(tmp_path / "d" / "text_punct", "u1 Before.")

        def break_off() -> None:
            with new_data_dir(tmp_path / "d") as writer:
                writer.write("text_punct", "u1", "After.")
                raise error

        with pytest.raises(error):
            break_off()
        assert contents(tmp_path / "d") == {"text_punct": "u1 Before.\n"}
        assert [p.name for p in tmp_path.iterdir()] == ["d"]

    def test_what_a_killed_run_left_is_replaced(self, tmp_path: Path) -> None:
        write(tmp_path / "d.tmp" / "segments", "half a li")
        write(tmp_path / "d" / "utt2spk", "u0 s")
        with new_data_dir(tmp_path / "d") as writer:
            writer.write("text_punct", "u1", "After.")
        assert contents(tmp_path / "d") == {"text_punct": "u1 After.\n"}
        assert [p.name for p in tmp_path.iterdir()] == ["d"]

    def test_of_nothing_comes_nothing(self, tmp_path: Path) -> None:
        with new_data_dir(tmp_path / "d") as writer:
            assert writer.is_empty
        assert writer.counts is None
        assert not list(tmp_path.iterdir())

    def test_the_working_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "d").mkdir()
        monkeypatch.chdir(tmp_path / "d")
        text = r"^\.: expected another directory than the one that work is done in; name it from outside"
        with pytest.raises(FormatError, match=text), new_data_dir("."):
            pass
        with pytest.raises(FormatError, match=r"^/: expected a new directory, or one that"), new_data_dir("/"):
            pass

    def test_what_is_written_is_read_back(self, tmp_path: Path) -> None:
        def make() -> None:
            with new_data_dir(tmp_path / "d") as writer:
                writer.write("text", "u2", "yes")
                writer.write("text", "u1", "well")

        with pytest.raises(FormatError, match=r"text:2: expected keys sorted in C order, got 'u1' after 'u2'"):
            make()
        assert not list(tmp_path.iterdir())

    def test_a_link_is_not_replaced(self, tmp_path: Path) -> None:
        for target in ("nowhere", "."):
            (tmp_path / "d").symlink_to(target)
            with pytest.raises(FormatError, match=r"and nothing else, got 'd'"), new_data_dir(tmp_path / "d"):
                pass
            (tmp_path / "d").unlink()

    @pytest.mark.parametrize("name", ["notes.doc", "wav/a.wav"])
    def test_a_directory_of_other_things_is_not_replaced(self, tmp_path: Path, name: str) -> None:
        write(tmp_path / "d" / name, "mine")
        text = (
            f"{tmp_path}/d: expected a new directory, or one that holds tables of a data directory and nothing else, "
            f"got '{name.partition('/')[0]}'; name another, or remove it"
        )
        with pytest.raises(FormatError) as e, new_data_dir(tmp_path / "d"):
            pass
        assert str(e.value) == text
        assert (tmp_path / "d" / name).exists()

    def test_a_place_that_cannot_be_made(self, tmp_path: Path) -> None:
        write(tmp_path / "file", "mine")
        with (
            pytest.raises(FormatError, match=r"file/d: expected a directory that can be made, got 'Not a directory'"),
            new_data_dir(tmp_path / "file" / "d"),
        ):
            pass


TOKENS = ["A", "b,", "c.", "d?", "t._v.", "U.S.", "Mr.", "[noise]", "e;"]


class TestCutting:
    def test_marks_go_where_their_words_are(self) -> None:
        utterances = [["so", "how", "are"], ["[noise]", "you", "well"], ["i", "am", "fine"]]
        done = cut_reference("So, how are you? Well, I am fine.", utterances)
        assert [c.text for c in done.cuts] == ["So, how are", "[noise] you? Well,", "I am fine."]
        assert [c.agreement for c in done.cuts] == [1.0, 1.0, 1.0]
        assert (done.n_marks, done.n_marks_lost) == (4, 0)

    def test_words_that_the_reference_lacks_lower_the_agreement(self) -> None:
        done = cut_reference("Yes.", [["yes", "no", "no", "no"], ["[noise]"], []])
        assert [c.agreement for c in done.cuts] == [0.25, 0.0, 0.0]

    def test_no_spelled_word_ends_a_sentence_by_its_dot(self) -> None:
        words = [LabelledWord("t._v."), *split("I see.")]
        assert to_text(words) == "t._v I see."
        assert [w.mark for w in split(to_text(words))] == ["", "", "."]

    @given(st.lists(st.sampled_from(TOKENS), max_size=12), st.integers(1, 4))
    def test_cut_text_has_the_utterances_words(self, tokens: list[str], n: int) -> None:
        words = [w.word for w in split(" ".join(tokens))]
        utterances = [words[i : i + n] for i in range(0, len(words), n)]
        for words_of, cut in zip(utterances, cut_reference(" ".join(tokens), utterances).cuts, strict=True):
            assert len(split(cut.text)) == len(words_of)


seconds_of_calls = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=4), st.floats(1, 7200), min_size=1, max_size=30
)


class TestSubsets:
    @given(seconds_of_calls, st.integers(0, 5), st.data())
    def test_fewer_hours_lie_within_more(self, seconds: dict[str, float], seed: int, data: st.DataObject) -> None:
        total_hours = sum(seconds.values()) / 3600
        more = data.draw(st.floats(0, total_hours * 0.999))
        fewer = data.draw(st.floats(0, more))
        taken = take_hours(seconds, more, seed)
        assert take_hours(seconds, fewer, seed) <= taken
        assert sum(seconds[c] for c in taken) >= more * 3600 * 0.999999
        # One call fewer would not do.
        without_last = [c for c in drawn_order(seconds, seed) if c in taken][:-1]
        assert not taken or sum(seconds[c] for c in without_last) < more * 3600

    def test_more_hours_than_there_are(self) -> None:
        with pytest.raises(FormatError) as e:
            take_hours({"a": 1800.0, "b": 1800.0}, 10, 1, "data/train")
        assert str(e.value) == "data/train: expected at least 10 hours, got 1.00; ask for fewer"

    @given(st.sets(st.text(min_size=1, max_size=3), min_size=2), st.integers(0, 3))
    def test_an_order_does_not_depend_on_who_else_is_there(self, names: set[str], seed: int) -> None:
        order = drawn_order(names, seed)
        assert sorted(order) == sorted(names)
        assert [n for n in order if n != order[0]] == drawn_order(names - {order[0]}, seed)

    def test_seeds_draw_differently(self) -> None:
        names = [f"call{i}" for i in range(20)]
        assert len({tuple(drawn_order(names, seed)) for seed in range(5)}) == 5

    @given(st.sets(st.text("abcdef", min_size=1, max_size=3)), st.floats(0, 0.5), st.floats(0, 0.5))
    def test_no_call_is_in_two_sets(self, calls: set[str], dev: float, test: float) -> None:
        of = split_calls(calls, {"dev": dev, "test": test}, "train", 1)
        assert of.keys() == calls
        assert abs(sum(s == "dev" for s in of.values()) - dev * len(calls)) <= 1


class TestDistribution:
    @given(st.lists(st.integers(0, 100000), min_size=1, max_size=6))
    def test_shares_add_up(self, counts: list[int]) -> None:
        marks = {str(i): n for i, n in enumerate(counts)}
        shares = SetCounts("d", 1, 1, sum(counts), None, marks, 0).shares()
        assert round(sum(shares.values()), 6) == (100 if sum(counts) else 0)
        for mark, n in marks.items():
            assert abs(shares[mark] - 100 * n / max(sum(counts), 1)) < 0.01

    def test_the_counts_are_all_the_words(self, run: Run, tmp_path: Path) -> None:
        write(tmp_path / "a" / "text_punct", "u1 Well, [noise] no. Who? Me⁇ Yes!", "u2 A.")
        write(tmp_path / "a" / "segments", "u1 r 0.0 1800.0", "u2 r 1800.0 5400.0")
        write(tmp_path / "b" / "text_punct", "u1 Hm")
        done = run("prepare", "--stats", "a", "b")
        table = [line.split() for line in done.out.splitlines()]
        assert table == [
            ["a", "b"],
            ["recordings", "1", "1"],
            ["utterances", "2", "1"],
            ["hours", "1.50", "-"],
            ["words", "6", "1"],
            ["no", "mark", "0", "0.00", "%", "1", "100.00", "%"],
            [",", "1", "20.00", "%", "0", "0.00", "%"],
            [".", "3", "60.00", "%", "0", "0.00", "%"],
            ["?", "1", "20.00", "%", "0", "0.00", "%"],
            ["all", "known", "5", "100.00", "%", "1", "100.00", "%"],
            ["unknown", "1", "0"],
        ]
        assert (done.status, done.last) == (0, "Done 3, 0 errors")
        both = json.loads(run("prepare", "--stats", "--json", "a", "b").out)["sets"]
        assert both[0] == {
            "name": "a",
            "recordings": 1,
            "utterances": 2,
            "words": 6,
            "hours": 1.5,
            "marks": {
                "": {"count": 0, "percent": 0.0},
                ",": {"count": 1, "percent": 20.0},
                ".": {"count": 3, "percent": 60.0},
                "?": {"count": 1, "percent": 20.0},
            },
            "unknown": 1,
        }
        assert both[1]["hours"] is None
        for s in both:
            assert sum(m["count"] for m in s["marks"].values()) + s["unknown"] == s["words"]

    def test_errors_of_a_directory_are_counted(self, run: Run, tmp_path: Path) -> None:
        write(tmp_path / "a" / "text_punct", "u1 A b.", "u2 C.")
        write(tmp_path / "a" / "ctm", "u1 1 5.0 0.5 a", "u1 1 1.0 0.5 b", "u2 1 0.0 0.5 c")
        done = run("prepare", "--stats", "a")
        assert (done.status, done.last) == (0, "Done 1, 1 errors")
