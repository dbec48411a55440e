"""Tables of lattices: archives and script files, the decoder's files, N-best lists."""

from __future__ import annotations

import gzip
import logging
from pathlib import Path

import pytest

from kaldi_punct.errors import ConfigError, FormatError, LatticeError
from kaldi_punct.kaldi.lattice import Lattice
from kaldi_punct.kaldi.tables import load_decoder, read_lattices, read_nbest

# Two words each way: "a b" costs 1 + 10 s, "b" costs 2 + 5 s for an acoustic scale s; they are equal at s = 0.2.
LATTICE = "{} \n0 1 1 0.5,5,1_1\n1 2 2 0.5,5,1\n0 2 2 2,5,1_1_1\n2\n\n"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "lat.1.gz"
    path.write_bytes(gzip.compress("".join(LATTICE.format(u) for u in ("u1", "u2", "u3")).encode()))
    return path


@pytest.fixture
def words(tmp_path: Path) -> Path:
    path = tmp_path / "words.txt"
    path.write_text("<eps> 0\na 1\nb 2\n")
    return path


def test_archives_by_file_and_pipe(archive: Path) -> None:
    for rspecifier in (f"ark:{archive}", f"ark,t:gunzip -c {archive} |"):
        entries = list(read_lattices(rspecifier))
        assert [key for key, _ in entries] == ["u1", "u2", "u3"]
        assert all(isinstance(lattice, Lattice) and lattice.n_states == 3 for _, lattice in entries)


def test_script_files(archive: Path, tmp_path: Path) -> None:
    plain = gzip.decompress(archive.read_bytes())
    (tmp_path / "lat").write_bytes(plain)
    offset = plain.index(b"u2") + 3
    (tmp_path / "lat.scp").write_text(f"x {tmp_path}/lat:{offset}\ny gunzip -c {archive} | tail -c +4 |\n")
    entries = list(read_lattices(f"scp:{tmp_path}/lat.scp"))
    assert [key for key, _ in entries] == ["x", "y"]
    assert all(isinstance(lattice, Lattice) and lattice.n_arcs == 3 for _, lattice in entries)


def test_a_bad_entry_of_a_script_file_is_an_error_in_its_place(
    archive: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "lat").write_bytes(gzip.decompress(archive.read_bytes()))
    script = tmp_path / "lat.scp"
    script.write_text(f"x {tmp_path}/none\ny {tmp_path}/lat:3\n")
    (x, error), (y, lattice) = read_lattices(f"scp:{script}")
    assert (x, y) == ("x", "y")
    assert isinstance(lattice, Lattice)
    assert isinstance(error, LatticeError)
    assert str(error).startswith(
        f"{script}:1: {tmp_path}/none: expected a readable file, got 'No such file or directory'"
    )
    assert [key for key, _ in read_lattices(f"scp,p:{script}")] == ["y"]
    assert f"{tmp_path}/none" in caplog.text
    assert "(left out)" in caplog.text


def test_bad_script_files(tmp_path: Path) -> None:
    script = tmp_path / "lat.scp"
    script.write_text("x\n")
    with pytest.raises(
        FormatError, match=r"lat\.scp:1: expected '<key> <rxfilename>', got 'x' alone; is it a script file\?"
    ):
        list(read_lattices(f"scp:{script}"))
    script.write_text("")
    with pytest.raises(
        FormatError, match=r"lat\.scp: expected lines '<key> <rxfilename>', got an empty file; did the dec"
    ):
        list(read_lattices(f"scp:{script}"))
    with pytest.raises(FormatError, match=r"lat\.scp: expected an rspecifier"):
        list(read_lattices(f"{script}"))


def test_a_cut_archive_keeps_what_is_whole(archive: Path) -> None:
    data = archive.read_bytes()
    whole = gzip.decompress(data)
    # Cut inside the third lattice, as gunzip would see it: a member without its end.
    archive.write_bytes(gzip.compress(whole[: whole.index(b"u3") + 12])[:-8])
    keys: list[str] = []
    with pytest.raises(
        FormatError, match=r"lat\.1\.gz.*\(.*lat\.1\.gz: expected whole gzip data, got an end after byte"
    ):
        keys.extend(key for key, _ in read_lattices(f"ark:{archive}"))
    assert keys == ["u1", "u2"]


def test_a_command_that_fails_between_lattices_is_an_error(archive: Path) -> None:
    keys: list[str] = []
    with pytest.raises(FormatError, match=r"expected the command to end with status 0, got 2; run it alone to see why"):
        keys.extend(key for key, _ in read_lattices(f"ark:gunzip -c {archive}; exit 2 |"))
    assert keys == ["u1", "u2", "u3"]


def test_an_empty_archive_is_an_error() -> None:
    with pytest.raises(LatticeError, match=r"^/dev/null: .*got nothing"):
        list(read_lattices("ark:/dev/null"))


def test_nbest_lists(archive: Path, words: Path) -> None:
    def best(scale: float, **options: float) -> list[str]:
        ((_, hyps), *_) = read_nbest(f"ark:{archive}", words, 2, scale, **options)  # type: ignore[arg-type]
        return [" ".join(w.word for w in hyp.words) for hyp in hyps]

    assert best(0.1) == ["a b", "b"]
    assert best(0.3) == ["b", "a b"]
    assert best(0.1, word_ins_penalty=1.0) == ["b", "a b"]
    assert best(0.1, lm_scale=0.1) == ["b", "a b"]
    assert [len(hyps) for _, hyps in read_nbest(f"ark:{archive}", words, 1, 0.1)] == [1, 1, 1]


def test_scales_are_read_from_beside_the_lattices(archive: Path, words: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as e:
        list(read_nbest(f"ark:{archive}", words))
    assert str(e.value) == (
        f"acoustic_scale: expected a number, got none, and there is no scoring_kaldi/best_wer beside 'ark:{archive}'; "
        "give it (1/LMWT: about 0.1 for a chain model, 1/12 for a GMM)"
    )
    (tmp_path / "scoring_kaldi").mkdir()

    def best(name: str) -> str:
        (tmp_path / "scoring_kaldi" / "best_wer").write_text(f"%WER 1 [ 1 / 2 ] x/{name}")
        ((_, hyps), *_) = read_nbest(f"ark:{archive}", words)
        return " ".join(w.word for w in hyps[0].words)

    assert best("wer_10_0.0") == "a b"
    assert best("wer_2_0.0") == "b"
    assert best("wer_10_1.0") == "b"
    ((_, hyps), *_) = read_nbest(f"ark:{archive}", words, word_ins_penalty=0.0)
    assert len(hyps[0].words) == 2


def test_word_times_need_a_frame_shift(archive: Path, words: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as e:
        list(
            read_nbest(f"ark:{archive}", words, acoustic_scale=0.1, model=tmp_path / "m", word_boundary=tmp_path / "w")
        )
    assert str(e.value) == (
        f"frame_shift_s: expected seconds, got none, and there is no frame_subsampling_factor beside 'ark:{archive}'; "
        "give it (0.03 for most chain models, 0.01 for a GMM)"
    )


def test_bad_lattices_are_left_out_and_counted(archive: Path, words: Path, caplog: pytest.LogCaptureFixture) -> None:
    words.write_text("<eps> 0\nb 2\n")
    with caplog.at_level(logging.ERROR):
        assert list(read_nbest(f"ark:{archive}", words, acoustic_scale=0.1)) == []
    assert f"ark:{archive}: 3 lattices left out" in caplog.text
    assert "got 1" in caplog.text


def test_half_of_what_word_times_need_is_refused(words: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^word_boundary: expected a file, got none with transition_model; give both"
    ):
        load_decoder(words=words, acoustic_scale=0.1, transition_model=tmp_path / "final.mdl")
    with pytest.raises(
        ConfigError, match=r"^transition_model: expected a file, got none with word_boundary; give both"
    ):
        load_decoder(words=words, acoustic_scale=0.1, word_boundary=tmp_path / "word_boundary.int")


def test_the_sample_s_words_and_times(mini: Path) -> None:
    """Kaldi's best path of the sample, with the frame shift found beside it."""
    expected: dict[str, list[tuple[str, float]]] = {}
    for line in (mini / "kaldi" / "1best.ctm").read_text().splitlines():
        utt_id, _, start_s, _, word = line.split(" ")[:5]
        expected.setdefault(utt_id, []).append((word, float(start_s)))
    n = 0
    for utt_id, (best, *_) in read_nbest(
        f"ark:gunzip -c {mini}/decode/lat.*.gz |",
        mini / "lang" / "words.txt",
        acoustic_scale=0.1,
        word_boundary=mini / "lang" / "phones" / "word_boundary.int",
        model=mini / "trans.mdl",
    ):
        n += 1
        assert [w.word for w in best.words] == [word for word, _ in expected[utt_id]]
        for found, (_, expected_s) in zip(best.words, expected[utt_id], strict=True):
            assert found.start_s == pytest.approx(expected_s, abs=0.0151)
    assert n == len(expected) == 30
