"""`kaldi-punct feats`, and frames that were computed before in training and in punctuating."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import kaldi_native_io as kio
import numpy as np
import pytest
import soundfile
import torch
import yaml
from safetensors.torch import load_file
from speech import DIM, write_speech_encoder
from tiny import write_data_dir, write_encoder

from kaldi_punct import checkpoint
from kaldi_punct.audio import read_audio
from kaldi_punct.cli import main
from kaldi_punct.config import Config
from kaldi_punct.errors import FormatError, UtteranceError
from kaldi_punct.features import compute
from kaldi_punct.frames import FrameKind, KaldiFrames
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.kaldi.tables import read_wav_scp
from kaldi_punct.kaldi.vectors import float_matrix_value
from kaldi_punct.models.speech import SpeechFrames
from kaldi_punct.precomputed import FrameTable, write_kind
from kaldi_punct.punctuator import Punctuator
from kaldi_punct.training import train
from kaldi_punct.types import Audio, Word
from kaldi_punct.windows import Sound

Frames = dict[str, np.ndarray]
NO_ENCODER = (
    "model.speech: no/such/thing: expected a speech encoder's directory or a Hugging Face hub name, got neither; check "
    "the path (it is relative to the working directory)"
)
AGAIN = "run kaldi-punct feats for this model again, or remove the table"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_speech_encoder("hubert", tmp_path_factory.mktemp("speech"))


@pytest.fixture(scope="module")
def lexical(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("lexical"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_data_dir(tmp_path / "data", n_utts=3, with_sound=True)


def read(scp: Path) -> Frames:
    return {key: np.array(value) for key, value in kio.SequentialFloatMatrixReader(f"scp:{scp}")}


def sounds(data: Path) -> dict[str, Audio]:
    return {key: read_audio(rx) for key, rx in read_wav_scp(data / "wav.scp")}


def same(a: Frames, b: Frames, atol: float = 0.0) -> bool:
    return list(a) == list(b) and all(a[k].shape == b[k].shape and np.abs(a[k] - b[k]).max() <= atol for k in a)


def test_frames_of_a_data_directory(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert main(["feats", "--type", "melspec", str(data), str(data)]) == 0
    expected = {key: compute("melspec", audio) for key, audio in sounds(data).items()}
    assert same(read(data / "feats_melspec.scp"), expected)
    assert yaml.safe_load((data / "feats_melspec.yaml").read_text()) == {
        "type": "melspec", "dim": 80, "sample_rate_hz": 8000, "shift_samples": 80, "window_samples": 200, "layer": -1,
        "sha256": "",
    }  # fmt: skip
    assert f"{data}/feats_melspec.scp: melspec frames of 80 numbers, one every 0.01 s" in caplog.text
    assert caplog.messages[-1] == "Done 3, 0 errors"


@pytest.mark.parametrize("layer", [-1, 1])
def test_frames_of_a_speech_encoder(data: Path, encoder: Path, tmp_path: Path, layer: int) -> None:
    out = tmp_path / "new" / "out"
    assert main(["feats", "--speech", str(encoder), "--layer", str(layer), str(data), str(out)]) == 0
    source = SpeechFrames.of(str(encoder), layer)
    expected = {key: source.frames(audio) for key, audio in sounds(data).items()}
    assert same(read(out / "feats_speech.scp"), expected)
    assert FrameKind(**yaml.safe_load((out / "feats_speech.yaml").read_text())) == source.kind


def test_the_sample_rate_is_the_models(data: Path, tmp_path: Path) -> None:
    assert main(["feats", "--type", "pitch", "--sample-rate", "16000", str(data), str(tmp_path)]) == 0
    source = KaldiFrames("pitch", 16000)
    assert same(read(tmp_path / "feats_pitch.scp"), {k: source.frames(a) for k, a in sounds(data).items()})


def test_threads_change_nothing(data: Path, tmp_path: Path) -> None:
    for nj in ("1", "3"):
        assert main(["feats", "--type", "melspec", "--nj", nj, str(data), str(tmp_path / nj)]) == 0
    assert (tmp_path / "1" / "feats_melspec.ark").read_bytes() == (tmp_path / "3" / "feats_melspec.ark").read_bytes()


def test_compressed_frames(data: Path, tmp_path: Path) -> None:
    main(["feats", "--type", "melspec", str(data), str(tmp_path / "a")])
    main(["feats", "--type", "melspec", "--compress", str(data), str(tmp_path / "b")])
    whole, small = (read(tmp_path / d / "feats_melspec.scp") for d in "ab")
    span = max(m.max() - m.min() for m in whole.values())
    assert same(whole, small, atol=span / 65535)
    sizes = [(tmp_path / d / "feats_melspec.ark").stat().st_size for d in "ab"]
    assert sizes[1] < 0.51 * sizes[0]
    table = FrameTable.read(tmp_path / "b" / "feats_melspec.scp", KaldiFrames("melspec", 8000).kind)
    assert same({k: table.frames(k) for k in whole}, small)


def test_several_encoders_of_one_directory(data: Path, encoder: Path, tmp_path: Path) -> None:
    other = write_speech_encoder("wavlm", tmp_path / "other")
    for path, layer, suffix in ((other, "-1", "_other"), (encoder, "-1", "_a"), (encoder, "1", "_b")):
        argv = ["feats", "--speech", str(path), "--layer", layer, "--suffix", suffix, str(data), str(data)]
        assert main(argv) == 0
    for path, layer, suffix in ((other, -1, "_other"), (encoder, -1, "_a"), (encoder, 1, "_b")):
        table = FrameTable.find(data, SpeechFrames.of(str(path), layer).kind)
        assert table is not None
        assert table.path == f"{data}/feats_speech{suffix}.scp"
    with pytest.raises(
        FormatError, match=rf"^{data}/feats_speech_a\.yaml: expected frames .*\(layer 0\), got .*\(layer -1"
    ):
        FrameTable.find(data, SpeechFrames.of(str(encoder), 0).kind)
    assert FrameTable.find(data, KaldiFrames("pitch", 8000).kind) is None


def test_a_constant_matrix_is_compressed_too() -> None:
    from kaldi_punct.kaldi.vectors import read_float_matrix

    path = Path("/dev/shm") if Path("/dev/shm").is_dir() else Path("/tmp")
    file = path / "kaldi_punct_constant.ark"
    try:
        file.write_bytes(float_matrix_value(np.full((3, 2), 2.5, np.float32), True, compress=True))
        assert np.abs(read_float_matrix(f"{file}:0") - 2.5).max() < 1e-5
    finally:
        file.unlink()


@pytest.mark.parametrize("kind", ["scp:{}/wav.scp", "scp:cat {}/wav.scp |", "ark:{}/wav.ark"])
def test_rspecifiers_of_sound(data: Path, tmp_path: Path, kind: str) -> None:
    with open(data / "wav.ark", "wb") as out:
        for key, rx in read_wav_scp(data / "wav.scp"):
            out.write(f"{key} ".encode() + Path(rx).read_bytes())
    source = kind.format(data)
    assert main(["feats", "--type", "melspec", source, f"ark,scp:{tmp_path}/x.ark,{tmp_path}/x.scp"]) == 0
    main(["feats", "--type", "melspec", str(data), str(tmp_path / "dir")])
    assert same(read(tmp_path / "x.scp"), read(tmp_path / "dir" / "feats_melspec.scp"), atol=2e-3)
    assert (tmp_path / "x.yaml").is_file()


def test_text_to_standard_output(data: Path, capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> None:
    assert main(["feats", "--type", "pitch", str(data), "ark,t:-"]) == 0
    (tmp_path / "out").write_bytes(capfdbinary.readouterr().out)
    main(["feats", "--type", "pitch", str(data), str(tmp_path)])
    as_text = {k: np.array(v) for k, v in kio.SequentialFloatMatrixReader(f"ark,t:{tmp_path}/out")}
    assert same(as_text, read(tmp_path / "feats_pitch.scp"), atol=1e-4)


def test_a_bad_recording_is_told_and_the_others_go_on(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    (data / "utt00.wav").write_bytes(b"no sound")
    soundfile.write(data / "utt01.wav", np.zeros(100, np.float32), 8000)
    assert main(["feats", "--type", "melspec", str(data), str(data)]) == 0
    assert list(read(data / "feats_melspec.scp")) == ["utt02"]
    assert f"{data}/utt00.wav: expected a whole WAV, FLAC or OGG file, got 8 bytes" in caplog.text
    assert "utt01: expected at least 0.025 s of sound, got 0.0125 s; leave it out" in caplog.text
    assert caplog.messages[-1] == "Done 1, 2 errors"


def test_stereo_in_an_archive(data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    soundfile.write(tmp_path / "two.wav", np.zeros((4000, 2), np.float32), 8000)
    (tmp_path / "a.ark").write_bytes(b"u1 " + (tmp_path / "two.wav").read_bytes())
    assert main(["feats", "--type", "melspec", f"ark:{tmp_path}/a.ark", str(tmp_path / "out")]) == 1
    assert "u1: expected one channel, got 2; take one out" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--type: expected one of melspec, pitch, prosody, speech, got none; add it"),
        (["--type", "speech"], "--speech: expected an encoder with --type speech, got none; add it"),
        (
            ["--speech", "e", "--sample-rate", "8000"],
            "--sample-rate: expected none with --type speech, whose encoder has one; leave it out",
        ),
        (
            ["--type", "pitch", "--speech", "e"],
            "--speech: expected --type speech with it, got pitch; leave one of them out",
        ),
        (
            ["--type", "pitch", "--layer", "3"],
            "--layer: expected --type speech with it, got pitch; leave one of them out",
        ),
        (
            ["--speech", "no/such/thing"],
            NO_ENCODER,
        ),
        (
            ["--type", "pitch", "--device", "cuda:99"],
            f"--device: expected one of {torch.cuda.device_count()} CUDA devices, got 'cuda:99'; use cpu",
        ),
        (
            ["--type", "pitch", "--sample-rate", "11025"],
            "sample_rate_hz: expected at least 4000 and a multiple of 100, got 11025; resample to 8000 or 16000 first",
        ),
    ],
)
def test_options_that_do_not_go_together(
    data: Path, caplog: pytest.LogCaptureFixture, options: list[str], message: str
) -> None:
    assert main(["feats", *options, str(data), str(data)]) == 1
    assert message in caplog.messages
    assert not list(data.glob("feats*"))


def test_inputs_and_outputs_that_are_none(data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "empty").mkdir()
    neither = "expected a data directory or an rspecifier of sound, got neither; write e.g."
    for source, message in (
        (tmp_path / "empty", f"{tmp_path}/empty: expected a data directory with wav.scp, got one without it"),
        (data / "wav.scp", f"{data}/wav.scp: {neither} 'scp:{data}/wav.scp'"),
    ):
        assert main(["feats", "--type", "pitch", str(source), str(tmp_path)]) == 1
        assert message in caplog.messages
    assert main(["feats", "--type", "pitch", "--suffix", "_a", str(data), "ark:-"]) == 1
    assert "--suffix: expected a directory as <out> with it, got a wspecifier; leave it out" in caplog.messages
    assert main(["feats", "--type", "pitch", "--compress", str(data), "ark,t:-"]) == 1
    assert "--compress: expected a binary archive, got ark,t; leave one of them out" in caplog.messages


class TestTable:
    """What a table that was computed before may hold."""

    kind = FrameKind("melspec", 3, 8000, 80, 200)

    def write(self, directory: Path, matrix: np.ndarray, **options: bool) -> Path:
        value = float_matrix_value(matrix.astype(np.float32), options.pop("binary", True), **options)
        (directory / "x.ark").write_bytes(b"rec1 " + value)
        (directory / "x.scp").write_text(f"rec1 {directory}/x.ark:5\n")
        return directory / "x.scp"

    @pytest.mark.parametrize("options", [{}, {"binary": False}, {"compress": True}])
    def test_every_form_of_a_matrix(self, tmp_path: Path, options: dict[str, bool]) -> None:
        matrix = np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)
        table = FrameTable.read(self.write(tmp_path, matrix, **options), self.kind)
        frames = table.frames("rec1")
        assert frames is not None
        assert np.abs(frames - matrix).max() < 1e-4
        assert table.frames("rec2") is None
        assert (frames.base is not None) == (not options)

    def test_frames_of_another_width(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, np.zeros((5, 4)))
        with pytest.raises(FormatError) as e:
            FrameTable.read(path, self.kind).frames("rec1")
        assert str(e.value) == f"{path}: 'rec1': expected frames of 3 numbers, got 4; {AGAIN}"

    @pytest.mark.parametrize("n_frames", [96, 97, 98, 99, 100])
    def test_the_number_of_frames_fits_the_sound(self, tmp_path: Path, n_frames: int) -> None:
        wav = str(tmp_path / "rec1.flac")
        soundfile.write(wav, np.zeros(16000, np.float32), 16000)  # 1 s at another rate: 98 frames
        path = self.write(tmp_path, np.zeros((n_frames, 3)))
        table = FrameTable.read(path, self.kind)
        if n_frames in (97, 98, 99):
            assert table.frames("rec1", wav) is not None
        else:
            with pytest.raises(FormatError) as e:
                table.frames("rec1", wav)
            assert str(e.value) == (f"{path}: 'rec1': expected 98 frames for its sound {wav}, got {n_frames}; {AGAIN}")
        assert table.frames("rec1", f"cat {wav} |") is not None  # a pipe is not run to count
        (tmp_path / "broken.wav").write_text("no sound")
        assert table.frames("rec1", str(tmp_path / "broken.wav")) is not None

    def test_frames_of_another_kind(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, np.zeros((5, 3)))
        write_kind(path, FrameKind("melspec", 3, 16000, 160, 400))
        with pytest.raises(FormatError) as e:
            FrameTable.read(path, self.kind)
        assert str(e.value) == (
            f"{tmp_path}/x.yaml: expected frames that the model hears (sample_rate_hz 8000, shift_samples 80, "
            f"window_samples 200), got others (sample_rate_hz 16000, shift_samples 160, window_samples 400); {AGAIN}"
        )
        write_kind(path, self.kind)
        assert FrameTable.read(path, self.kind).frames("rec1") is not None
        (tmp_path / "x.yaml").write_text("[")
        with pytest.raises(FormatError, match=rf"^{tmp_path}/x\.yaml: expected what the frames of x\.scp are, got: "):
            FrameTable.read(path, self.kind)

    @pytest.mark.parametrize("damage", ["gone", "cut", "none"])
    def test_an_archive_that_is_broken(self, tmp_path: Path, damage: str) -> None:
        path = self.write(tmp_path, np.zeros((5, 3)))
        archive = tmp_path / "x.ark"
        if damage == "gone":
            archive.unlink()
        else:
            archive.write_bytes(archive.read_bytes()[:-4] if damage == "cut" else b"")
        with pytest.raises(FormatError) as e:
            FrameTable.read(path, self.kind).frames("rec1")
        assert str(e.value) == (
            f"{archive}:5: expected a whole float matrix, got none there; check the name (paths are relative to the "
            "working directory), or write the table anew"
        )


def options(lexical: Path, *more: str) -> Config:
    base = [
        f"model.encoder={lexical}", "model.n_layers=1", "model.timing_dim=8", "model.lstm_dim=8", "data.max_pieces=64",
        "train.batch_pieces=128", "train.head_lr=0.01", "train.n_threads=1", "train.max_steps=3",
    ]  # fmt: skip
    return Config.load(None, [*base, *more])


@pytest.fixture(params=["melspec", "speech"])
def hearing(request: pytest.FixtureRequest, encoder: Path) -> tuple[list[str], list[str]]:
    """What a configuration says of a model that hears, and ``feats`` of its frames."""
    if request.param == "melspec":
        return ["model.acoustic=melspec"], ["--type", "melspec"]
    return ["model.acoustic=speech", f"model.speech={encoder}", "model.speech_layer=1"], [
        "--speech", str(encoder), "--layer", "1",
    ]  # fmt: skip


def refuse(*_: object) -> np.ndarray:
    raise AssertionError("Frames were computed before.")


def test_training_and_answers_are_the_same_with_frames_computed_before(
    hearing: tuple[list[str], list[str]],
    lexical: Path,
    encoder: Path,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config, feats = options(lexical, *hearing[0]), hearing[1]
    encoder_before = (encoder / "model.safetensors").read_bytes()
    fresh = train(data, data, tmp_path / "fresh", config)
    punctuator = Punctuator(checkpoint.load(fresh))
    heard = list(punctuator.stream(DataDir(data)))
    assert all(a.used_audio for a in heard)
    assert not any(a.used_audio for a in punctuator.stream(DataDir(data), hear=False))
    assert main(["feats", *feats, str(data), str(data)]) == 0
    with monkeypatch.context() as patch:
        for source in (KaldiFrames, SpeechFrames):
            patch.setattr(source, "frames", refuse)
            patch.setattr(source, "load", refuse)
        before = train(data, data, tmp_path / "before", config)
        again = list(punctuator.stream(DataDir(data)))
    assert "frames of 3 recordings were computed before" in caplog.text
    results = [(tmp_path / name / "results.jsonl").read_text() for name in ("fresh", "before")]
    a, b = (load_file(path / "model.safetensors") for path in (fresh, before))
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert json.loads(results[0])["data"] == json.loads(results[1])["data"]
    assert [x.words for x in again] == [x.words for x in heard]
    # The encoder stays as it was, and its copies are it.
    assert (encoder / "model.safetensors").read_bytes() == encoder_before
    if (fresh / "speech").exists():
        assert (fresh / "speech" / "model.safetensors").read_bytes() == encoder_before
        assert (tmp_path / "fresh" / "last" / "speech" / "config.json").is_file()


def test_what_the_table_lacks_is_computed(lexical: Path, data: Path, tmp_path: Path) -> None:
    config = options(lexical, "model.acoustic=melspec")
    fresh = train(data, [], tmp_path / "fresh", config)
    main(["feats", "--type", "melspec", str(data), str(data)])
    scp = data / "feats_melspec.scp"
    scp.write_text("".join(scp.read_text().splitlines(keepends=True)[1:]))
    partly = train(data, [], tmp_path / "partly", config)
    (data / "wav.scp").unlink()
    without = train(data, [], tmp_path / "without", config)
    weights = [load_file(path / "model.safetensors") for path in (fresh, partly, without)]
    assert all(torch.equal(weights[0][k], weights[1][k]) for k in weights[0])
    assert any(not torch.equal(weights[0][k], weights[2][k]) for k in weights[0])


def test_training_says_which_frames_do_not_fit(lexical: Path, encoder: Path, data: Path, tmp_path: Path) -> None:
    config = options(lexical, "model.acoustic=speech", f"model.speech={encoder}")
    main(["feats", "--speech", str(encoder), "--layer", "0", str(data), str(data)])
    with pytest.raises(FormatError) as e:
        train(data, [], tmp_path / "exp", config)
    assert str(e.value) == (
        f"{data}/feats_speech.yaml: expected frames that the model hears (layer -1), got others (layer 0); {AGAIN}"
    )
    (data / "feats_speech.yaml").unlink()
    (data / "wav.scp").unlink()
    (data / "x.ark").write_bytes(b"utt00 " + float_matrix_value(np.zeros((500, DIM + 1), np.float32), True))
    (data / "feats_speech.scp").write_text(f"utt00 {data}/x.ark:6\n")
    with pytest.raises(FormatError, match=r"feats_speech\.scp: 'utt00': expected frames of 12 numbers, got 13"):
        train(data, [], tmp_path / "exp2", config)


def test_kaldis_own_feats_scp_is_another_thing(lexical: Path, data: Path, tmp_path: Path) -> None:
    (data / "feats.scp").write_text("utt00 mfcc.ark:9\n")
    train(data, [], tmp_path / "exp", options(lexical, "model.acoustic=melspec"))


def test_recordings_too_short_for_any_frame(lexical: Path, data: Path, tmp_path: Path) -> None:
    from kaldi_punct.errors import ConfigError

    for path in data.glob("*.wav"):
        soundfile.write(path, np.zeros(100, np.float32), 8000)
    with pytest.raises(ConfigError, match=r"^model\.acoustic: expected training sets with sound, got recordings too"):
        train(data, [], tmp_path / "exp", options(lexical, "model.acoustic=melspec"))


class TestPunctuate:
    """``punctuate --feats``."""

    @pytest.fixture
    def model(self, hearing: tuple[list[str], list[str]], lexical: Path, tmp_path: Path) -> Path:
        torch.manual_seed(3)
        checkpoint.save(checkpoint.create(options(lexical, *hearing[0])), tmp_path / "model")
        return tmp_path / "model"

    @pytest.fixture
    def punctuate(self, model: Path, data: Path, tmp_path: Path) -> Callable[..., list[dict[str, object]]]:
        def run(*more: object, status: int = 0) -> list[dict[str, object]]:
            out = tmp_path / "out"
            argv = ["punctuate", "--model", model, "--from", "ctm", "--to", "jsonl", *more, data / "ctm", out]
            assert main([str(a) for a in argv]) == status
            return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []

        return run

    def test_answers_are_those_of_the_sound(
        self,
        punctuate: Callable[..., list[dict[str, object]]],
        hearing: tuple[list[str], list[str]],
        model: Path,
        data: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        main(["feats", *hearing[1], str(data), str(data)])
        scp = next(data.glob("feats_*.scp"))
        heard = punctuate("--wav-scp", data / "wav.scp")
        assert heard != punctuate()
        for source in (KaldiFrames, SpeechFrames):
            monkeypatch.setattr(source, "frames", refuse)
        assert punctuate("--feats", scp) == heard
        assert punctuate("--feats", f"scp:{scp}", "--wav-scp", data / "wav.scp") == heard
        scp.write_text("".join(scp.read_text().splitlines(keepends=True)[1:]))
        caplog.clear()
        assert punctuate("--feats", scp) == heard[1:]
        assert "utt00: expected its recording in --feats, got no entry; add it, or give --wav-scp beside" in caplog.text
        monkeypatch.undo()
        assert punctuate("--feats", scp, "--wav-scp", data / "wav.scp") == heard

    def test_frames_that_do_not_fit(
        self,
        punctuate: Callable[..., list[dict[str, object]]],
        data: Path,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        (tmp_path / "x.ark").write_bytes(b"utt00 " + float_matrix_value(np.zeros((5, 2), np.float32), True))
        (tmp_path / "x.scp").write_text(f"utt00 {tmp_path}/x.ark:6\n")
        assert len(punctuate("--feats", tmp_path / "x.scp", "--wav-scp", data / "wav.scp")) == 2
        assert f"utt00: {tmp_path}/x.scp: 'utt00': expected frames of " in caplog.text
        write_kind(tmp_path / "x.scp", FrameKind("pitch", 2, 8000, 80, 200))
        (tmp_path / "out").unlink()
        assert punctuate("--feats", tmp_path / "x.scp", status=1) == []
        assert f"{tmp_path}/x.yaml: expected frames that the model hears (" in caplog.text

    @pytest.mark.parametrize("hearing", ["speech"], indirect=True)
    def test_a_missing_encoder_is_told_once(
        self,
        punctuate: Callable[..., list[dict[str, object]]],
        model: Path,
        data: Path,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        values = json.loads((model / "config.json").read_text())
        values["speech"]["name"] = "no/such/encoder"
        (model / "config.json").write_text(json.dumps(values))
        shutil.rmtree(model / "speech")
        assert punctuate("--wav-scp", data / "wav.scp", status=1) == []
        errors = [r.message for r in caplog.records if r.levelname == "ERROR"]
        assert len(errors) == 1
        assert errors[0].startswith(f"{model}: expected its speech encoder in {model}/speech or at 'no/such/encoder'")
        assert main(["serve", "--listen", "localhost:0", "--model", str(model)]) == 1
        assert caplog.text.count(f"{model}: expected its speech encoder in") == 2
        assert len(punctuate()) == 3  # without sound none is needed


def test_feats_for_a_model_that_does_not_hear(
    tiny_model: Path, data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    main(["feats", "--type", "melspec", str(data), str(data)])
    scp = data / "feats_melspec.scp"
    assert (
        main(["punctuate", "--model", str(tiny_model), "--feats", str(scp), str(data / "ctm"), str(tmp_path / "o")])
        == 0
    )
    assert f"--feats {scp} is not used: the model does not hear" in caplog.text


def test_frames_in_place_of_audio(lexical: Path) -> None:
    punctuator = Punctuator(checkpoint.create(options(lexical, "model.acoustic=melspec")))
    words = [Word("so", 0.1, 0.2), Word("it", 0.4, 0.2)]
    audio = Audio(np.random.default_rng(1).normal(0, 0.1, 8000).astype(np.float32), 8000, 0.05)
    frames = compute("melspec", audio)
    assert punctuator(words, audio=Sound(frames, 0.01, 0.05)).words == punctuator(words, audio=audio).words
    for wrong, got in ((Sound(frames[:, :70], 0.01), "70 every 0.01 s"), (Sound(frames, 0.02), "80 every 0.02 s")):
        with pytest.raises(UtteranceError) as e:
            punctuator(words, audio=wrong)
        assert str(e.value) == (
            f"audio: expected frames of 80 numbers every 0.01 s, got {got}; make them for this model (kaldi-punct "
            "feats), or give the sound itself"
        )
