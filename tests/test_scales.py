"""What is found beside a decode directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from kaldi_punct.errors import FormatError
from kaldi_punct.kaldi.scales import Scales, find_scales


@pytest.fixture
def decode_dir(tmp_path: Path) -> Path:
    model = tmp_path / "exp" / "tdnn"
    decode = model / "decode_dev"
    (decode / "scoring_kaldi").mkdir(parents=True)
    (model / "graph" / "phones").mkdir(parents=True)
    (decode / "scoring_kaldi" / "best_wer").write_text(
        "%WER 45.08 [ 2 / 4, 1 ins, 1 del, 0 sub ] exp/x/decode/wer_9_0.5\n"
    )
    (decode / "lat.1.gz").write_bytes(b"")
    (model / "frame_subsampling_factor").write_text("3")
    for name in ("final.mdl", "graph/words.txt", "graph/phones/word_boundary.int", "graph/phones/align_lexicon.int"):
        (model / name).write_text("")
    return decode


def test_everything_is_found(decode_dir: Path) -> None:
    model = decode_dir.parent
    assert find_scales(decode_dir) == Scales(
        decode_dir,
        1 / 9,
        0.5,
        0.03,
        model / "graph" / "words.txt",
        model / "graph" / "phones" / "word_boundary.int",
        model / "graph" / "phones" / "align_lexicon.int",
        model / "final.mdl",
        decode_dir / "scoring_kaldi" / "best_wer",
        model / "frame_subsampling_factor",
    )


@pytest.mark.parametrize(
    "rspecifier",
    ["ark:{}/lat.1.gz", "{}/lat.1.gz", "ark:gunzip -c {}/lat.*.gz |", "ark,s,cs:/bin/cat '{}/lat.1.gz' | gunzip -c |"],
)
def test_an_rspecifier_says_where_its_lattices_are(decode_dir: Path, rspecifier: str) -> None:
    assert find_scales(rspecifier.format(decode_dir)) == find_scales(decode_dir)


@pytest.mark.parametrize("rspecifier", ["ark:-", "ark:none.ark", "ark:gunzip -c 'x |"])
def test_an_rspecifier_that_names_no_file_finds_nothing(rspecifier: str) -> None:
    assert find_scales(rspecifier) == Scales()


def test_an_empty_place_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "a" / "decode").mkdir(parents=True)
    assert find_scales(tmp_path / "a" / "decode") == Scales(tmp_path / "a" / "decode")


def test_frame_shift_wins_over_the_factor(decode_dir: Path) -> None:
    (decode_dir.parent / "frame_shift").write_text("0.02\n")
    assert find_scales(decode_dir).frame_shift_s == 0.02
    assert find_scales(decode_dir).frame_shift_file == decode_dir.parent / "frame_shift"


@pytest.mark.parametrize(
    ("name", "scale", "penalty"), [("wer_10", 0.1, 0.0), ("wer_12_1.0", 1 / 12, 1.0), ("wer_7_-0.5", 1 / 7, -0.5)]
)
def test_best_wer_names(decode_dir: Path, name: str, scale: float, penalty: float) -> None:
    (decode_dir / "scoring_kaldi" / "best_wer").write_text(f"%WER 4 [ 2 / 4 ] x/{name}\n")
    assert (find_scales(decode_dir).acoustic_scale, find_scales(decode_dir).word_ins_penalty) == (scale, penalty)


def test_one_named_graph_is_taken_and_of_several_none(decode_dir: Path) -> None:
    model = decode_dir.parent
    (model / "graph").rename(model / "graph_tg")
    assert find_scales(decode_dir).words == model / "graph_tg" / "words.txt"
    (model / "graph_fg").mkdir()
    (model / "graph_fg" / "words.txt").write_text("")
    assert find_scales(decode_dir).words is None


def test_a_linked_decode_directory_belongs_to_its_target_s_model(decode_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(decode_dir)
    assert find_scales(tmp_path / "link").transition_model == decode_dir.parent / "final.mdl"


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        (
            "decode_dev/scoring_kaldi/best_wer",
            "%WER nothing",
            (
                ":1: expected a line that ends in wer_<LMWT>_<WIP>, got '%WER nothing'; score again "
                "(steps/score_kaldi.sh) "
                "or give --acoustic-scale and --word-ins-penalty"
            ),
        ),
        (
            "frame_subsampling_factor",
            "x",
            ":1: expected a number of frames above 0, got 'x'; correct it or give --frame-shift",
        ),
        ("frame_shift", "0", ":1: expected seconds above 0, got '0'; correct it or give --frame-shift"),
    ],
)
def test_files_that_do_not_hold_what_they_should(decode_dir: Path, name: str, content: str, text: str) -> None:
    (decode_dir.parent / name).write_text(content)
    with pytest.raises(FormatError) as e:
        find_scales(decode_dir)
    assert str(e.value) == f"{decode_dir.parent / name}{text}"


@pytest.mark.shared
def test_a_real_recipe(shared: Path) -> None:
    model = shared / "recipe" / "s5" / "exp" / "chain" / "tdnn_lstm"
    found = find_scales(model / "decode_turns_dev")
    assert (found.acoustic_scale, found.word_ins_penalty, found.frame_shift_s) == (1 / 9, 0.5, 0.03)
    assert (found.words, found.transition_model) == (model / "graph" / "words.txt", model / "final.mdl")
    assert found.word_boundary == model / "graph" / "phones" / "word_boundary.int"


def test_the_sample(mini: Path) -> None:
    assert find_scales(mini / "decode") == Scales(
        mini / "decode",
        frame_shift_s=0.03,
        words=mini / "lang" / "words.txt",
        word_boundary=mini / "lang" / "phones" / "word_boundary.int",
        transition_model=mini / "trans.mdl",
        frame_shift_file=mini / "frame_subsampling_factor",
    )
