"""Frozen speech encoders: frames of every kind, where they lie, long sound, and how a model keeps its encoder."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from serving import running_server
from speech import DIM, KINDS, WHISPER_POSITIONS, make_hf, noise, write_preprocessor, write_speech_encoder
from tiny import write_encoder
from transformers import AutoFeatureExtractor, AutoModel

from kaldi_punct import checkpoint, features
from kaldi_punct.audio import resample
from kaldi_punct.batch import PieceTable, collate
from kaldi_punct.config import Config, ModelConfig
from kaldi_punct.errors import CheckpointError, ConfigError
from kaldi_punct.frames import FrameKind, KaldiFrames
from kaldi_punct.hearing import hear
from kaldi_punct.models import speech_encoders
from kaldi_punct.models.muse import to_inputs
from kaldi_punct.models.objective import parameter_groups
from kaldi_punct.models.speech import SpeechFrames, make_source
from kaldi_punct.models.speech_encoders import cut_pieces, describe
from kaldi_punct.punctuator import Punctuator
from kaldi_punct.serve.client import Client
from kaldi_punct.types import Audio, Word
from kaldi_punct.windows import build_track, cut_example

SHIFT = {"wav2vec": 160}
NO_ENCODER = (
    "{{path}}: expected a speech encoder (wav2vec2, HuBERT, WavLM and the like without an adapter, Whisper, or our "
    "wav2vec), got a model of type '{}'; take another model.speech"
)


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("speech")
    return {kind: write_speech_encoder(kind, root / kind) for kind in KINDS}


@pytest.fixture(scope="module")
def lexical(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("lexical"))


@pytest.fixture(scope="module")
def sources(encoders: dict[str, Path]) -> dict[str, SpeechFrames]:
    return {kind: SpeechFrames.of(str(path), -1) for kind, path in encoders.items()}


def options(lexical: Path, speech: Path | str, *more: str) -> Config:
    base = [f"model.encoder={lexical}", "model.n_layers=1", "model.acoustic=speech", f"model.speech={speech}"]
    return Config.load(None, [*base, "model.lstm_dim=8", "model.timing_dim=8", "data.max_pieces=64", *more])


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_every_kind(sources: dict[str, SpeechFrames], kind: str) -> None:
    source, sound = sources[kind], noise(1.0)
    frames = source.frames(sound)
    shift = SHIFT.get(kind, 320)
    window = {"whisper": 160, "wav2vec": 465}.get(kind, 400)
    assert source.kind == FrameKind("speech", DIM, 16000, shift, window, -1, source.kind.sha256)
    assert source.kind.frame_shift_s == shift / 16000
    assert frames.shape == (1 + (16000 - window) // shift, DIM)
    assert frames.dtype == np.float32
    assert np.isfinite(frames).all()
    assert frames.std(0).min() > 1e-3
    assert np.array_equal(frames, source.frames(sound))


@pytest.mark.parametrize("kind", KINDS)
def test_sound_of_another_rate_is_resampled(sources: dict[str, SpeechFrames], kind: str) -> None:
    telephone = noise(1.0, 8000)
    frames = sources[kind].frames(telephone)
    assert np.array_equal(frames, sources[kind].frames(resample(telephone, 16000)))
    assert len(frames) == len(sources[kind].frames(noise(1.0)))


@pytest.mark.parametrize("kind", KINDS)
def test_sound_shorter_than_a_window_has_no_frame(sources: dict[str, SpeechFrames], kind: str) -> None:
    window = sources[kind].kind.window_samples
    for n, expected in ((0, 0), (1, 0), (window - 1, 0), (window, 1)):
        sound = Audio(noise(1.0).samples[:n], 16000)
        assert sources[kind].frames(sound).shape == (expected, DIM)


@pytest.mark.parametrize("kind", ["wav2vec2", "hubert", "wavlm", "whisper"])
@pytest.mark.parametrize("layer", [-1, 0, 1, 2])
def test_frames_are_the_hidden_states_of_transformers(encoders: dict[str, Path], kind: str, layer: int) -> None:
    sound = noise(0.9)
    whole = AutoModel.from_pretrained(encoders[kind]).eval()
    extractor = AutoFeatureExtractor.from_pretrained(encoders[kind])
    if kind == "whisper":
        length = {"max_length": WHISPER_POSITIONS * 320, "padding": "max_length"}
        inputs = extractor(sound.samples, sampling_rate=16000, return_tensors="pt", **length).input_features
        whole = whole.get_encoder()
    else:
        inputs = extractor(sound.samples, sampling_rate=16000, return_tensors="pt").input_values
    with torch.inference_mode():
        out = whole(inputs, output_hidden_states=True)
    expected = out.last_hidden_state if layer in (-1, 2) else out.hidden_states[layer]
    frames = SpeechFrames.of(str(encoders[kind]), layer).frames(sound)
    np.testing.assert_allclose(frames, expected[0, : len(frames)].numpy(), atol=2e-5)
    if kind != "whisper":
        assert len(frames) == expected.shape[1]


def test_our_wav2vec_gives_its_context(encoders: dict[str, Path], sources: dict[str, SpeechFrames]) -> None:
    from kaldi_punct.models.wav2vec import Wav2vec

    sound = noise(0.7)
    expected = Wav2vec.load(encoders["wav2vec"]).extract(torch.as_tensor(sound.samples)).numpy()
    np.testing.assert_allclose(sources["wav2vec"].frames(sound), expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["wav2vec2", "wav2vec", "whisper"])
def test_frame_t_lies_where_it_is_said_to(encoders: dict[str, Path], kind: str) -> None:
    """What a click 0.4 s in changes first, in the frames that see no more than their window (layer 0, or causal)."""
    source = SpeechFrames.of(str(encoders[kind]), -1 if kind == "wav2vec" else 0)
    write = noise(0.8)
    clicked = write.samples.copy()
    clicked[6400:6440] += 0.9
    if kind == "wav2vec2":  # positional convolutions and norms over time look further than the window
        encoder = source._loaded()
        convolutions = encoder.model.feature_extractor  # type: ignore[attr-defined]
        convolutions.conv_layers[0].layer_norm = torch.nn.Identity()
        a, b = (convolutions(torch.as_tensor(s)[None])[0].T for s in (write.samples, clicked))
        changed = np.flatnonzero((a - b).abs().amax(1) > 1e-6)
    else:
        a, b = (source.frames(Audio(s, 16000)) for s in (write.samples, clicked))
        changed = np.flatnonzero(np.abs(a - b).max(1) > 1e-3)
    kind_of = source.kind
    first_s, click_s = changed[0] * kind_of.frame_shift_s, 0.4
    window_s = kind_of.window_samples / 16000
    if kind == "whisper":  # around: 32.5 ms on both sides
        assert click_s - 0.0325 - 0.02 <= first_s <= click_s
        assert changed[-1] * kind_of.frame_shift_s <= click_s + 0.0025 + 0.0325 + 1e-9
    else:  # from its beginning on
        assert click_s - window_s <= first_s <= click_s
        assert first_s > click_s - window_s - 1e-9
    if kind == "wav2vec2":
        assert changed.tolist() == [19, 20]  # [19 x 320, 19 x 320 + 400) and the next see samples 6400..6439


def test_samples_are_normalised_where_the_encoder_wants_it(encoders: dict[str, Path], tmp_path: Path) -> None:
    loud = noise(0.5)
    quiet = Audio(loud.samples * np.float32(0.2), 16000)
    for do_normalize in (True, False):
        path = shutil.copytree(encoders["hubert"], tmp_path / str(do_normalize))
        write_preprocessor(path, do_normalize=do_normalize)
        source = SpeechFrames.of(str(path), 0)
        assert np.allclose(source.frames(loud), source.frames(quiet), atol=1e-4) == do_normalize
        prepared = source._loaded().prepare(loud.samples)
        if do_normalize:
            assert abs(float(prepared.mean())) < 1e-5
            assert abs(float(prepared.std()) - 1) < 1e-4
        else:
            assert prepared is loud.samples


@pytest.mark.parametrize(("kind", "normalised"), [("hubert", True), ("wav2vec2", False)])
def test_without_a_preprocessor_the_configuration_decides(
    encoders: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str, normalised: bool
) -> None:
    path = shutil.copytree(encoders[kind], tmp_path / "e")
    (path / "preprocessor_config.json").unlink()
    samples = noise(0.2).samples
    assert (SpeechFrames.of(str(path), -1)._loaded().prepare(samples) is not samples) == normalised
    says = f"{path}: no preprocessor_config.json: samples are {'' if normalised else 'not '}normalised, as its config"
    assert says in caplog.text


def test_whisper_without_a_preprocessor(encoders: dict[str, Path], tmp_path: Path) -> None:
    path = shutil.copytree(encoders["whisper"], tmp_path / "e")
    (path / "preprocessor_config.json").unlink()
    sound = noise(0.5)
    frames = SpeechFrames.of(str(path), -1).frames(sound)
    assert np.array_equal(frames, SpeechFrames.of(str(encoders["whisper"]), -1).frames(sound))


def test_pieces_cover_every_frame_once_with_context() -> None:
    for n_frames in (0, 1, 59, 60, 61, 79, 80, 100, 101, 200, 997):
        pieces = list(cut_pieces(n_frames, 60))
        assert [f for _, first, last in pieces for f in range(first, last)] == list(range(n_frames))
        for start, first, last in pieces:
            assert 0 <= start <= first
            assert last <= start + 60
            assert first - start >= 10 or first == 0
            assert start + 60 - last >= 10 or last == n_frames
        assert len(pieces) == max(1, -(-(n_frames - 20) // 40))


# Layer 0 of an encoder of transformers, and our wav2vec with norm "frame", look only as far as their convolutions.
# Measured: the largest difference between pieces and whole is 1.4e-5 for wav2vec (its norm over few channels makes
# rounding larger; it depends on how many threads convolve) and 2e-6 for HuBERT.
@pytest.mark.parametrize(("kind", "layer"), [("wav2vec", -1), ("hubert", 0)])
def test_pieces_equal_the_whole_where_frames_hear_no_further(encoders: dict[str, Path], kind: str, layer: int) -> None:
    source = SpeechFrames.of(str(encoders[kind]), layer)
    sound = noise(6.1)
    whole = source.frames(sound)
    encoder = source._loaded()
    short = dataclasses.replace(source.described, piece_frames=100)
    assert len(list(cut_pieces(len(whole), 100))) > 3
    pieces = speech_encoders.extract(encoder, short, sound.samples)
    np.testing.assert_allclose(pieces, whole, atol=1e-4)


@pytest.mark.parametrize("kind", ["wav2vec2", "whisper"])
def test_long_sound_is_cut_where_frames_hear_all(sources: dict[str, SpeechFrames], kind: str) -> None:
    source, sound = sources[kind], noise(4.0)
    encoder = source._loaded()
    described = dataclasses.replace(source.described, piece_frames=60)
    frames = speech_encoders.extract(encoder, described, sound.samples)
    assert len(frames) == source.kind.n_frames(64000)
    first = encoder.extract(encoder.prepare(sound.samples)[: 60 * 320 + 80])
    np.testing.assert_allclose(frames[:50], first[:50], atol=1e-4)
    start = len(frames) - 60
    last = encoder.extract(encoder.prepare(sound.samples)[start * 320 :])
    np.testing.assert_allclose(frames[-10:], last[60 - 10 : 60], atol=1e-4)


def test_a_piece_is_30_s(sources: dict[str, SpeechFrames], tmp_path: Path) -> None:
    assert sources["wav2vec2"].described.piece_frames == 1499
    assert sources["wav2vec"].described.piece_frames == 2998
    assert sources["whisper"].described.piece_frames == WHISPER_POSITIONS


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_heard_at_their_own_frames(sources: dict[str, SpeechFrames], kind: str) -> None:
    """Word times in seconds meet frames of 10 and of 20 ms."""
    source = sources[kind]
    words = [Word("a", 0.10, 0.30), Word("b", 0.55, 0.25)]
    sound = hear(dataclasses.replace(noise(1.5), start_s=0.0), source, by_times=True)
    example = cut_example(build_track(words, Spell(), sound), 0, 2, Spell(), 16, 2.0)  # type: ignore[arg-type]
    assert example.frames is not None
    assert example.last_frames is not None
    assert example.onset_frames is not None
    shift_s = source.kind.frame_shift_s
    assert example.last_frames.tolist() == [round(0.40 / shift_s) - 1, round(0.80 / shift_s) - 1]
    assert example.onset_frames[0] == {0.01: 54, 0.02: 27}[shift_s]
    assert np.array_equal(example.frames, sound.frames[: len(example.frames)])
    later = dataclasses.replace(sound, start_s=0.2)
    moved = cut_example(build_track(words, Spell(), later), 0, 2, Spell(), 16, 2.0)  # type: ignore[arg-type]
    assert moved.last_frames is not None
    assert moved.last_frames.tolist() == [-1, round(0.60 / shift_s) - 1]


class Spell:
    """A table with one piece a word."""

    cls_id, sep_id = 2, 3

    def __call__(self, word: str) -> tuple[int, ...]:
        return (4 + ord(word[0]) % 20,)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fusion", ["onset", "attention"])
def test_alone_equals_in_a_batch(lexical: Path, encoders: dict[str, Path], kind: str, fusion: str) -> None:
    made = checkpoint.create(options(lexical, encoders[kind], f"model.fusion={fusion}"))
    model = made.model.eval()
    assert made.source is not None
    table = made.piece_table()
    examples = [example_of(made.source, table, n, fusion == "onset") for n in (3, 7)]
    examples.append(dataclasses.replace(examples[0], frames=None, last_frames=None, onset_frames=None))
    with torch.inference_mode():
        together = model(to_inputs(collate(examples), torch.device("cpu")))
        for b, example in enumerate(examples):
            alone = model(to_inputs(collate([example]), torch.device("cpu")))
            torch.testing.assert_close(together.marks[b, : example.n_words], alone.marks[0], atol=1e-4, rtol=1e-4)
    assert not torch.allclose(together.marks[0, :3], together.marks[2, :3], atol=1e-4)


def example_of(source: SpeechFrames, table: PieceTable, n_words: int, by_times: bool):  # type: ignore[no-untyped-def]
    words = [Word("abcdefg"[i], 0.2 * i, 0.15) for i in range(n_words)]
    sound = hear(noise(0.2 * n_words + 0.3, seed=n_words), source, by_times=by_times)
    return cut_example(build_track(words, table, sound), 0, n_words, table, 64, 2.0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_encoder_is_frozen_and_no_part_of_the_model(lexical: Path, encoders: dict[str, Path], kind: str) -> None:
    config = options(lexical, encoders[kind])
    made = checkpoint.create(config)
    assert made.config.sample_rate_hz == 16000
    assert isinstance(made.source, SpeechFrames)
    made.source.load()
    weights = list(made.source._encoder.model.parameters())  # type: ignore[union-attr]
    assert weights
    assert not any(p.requires_grad for p in weights)
    assert not made.source._encoder.model.training  # type: ignore[union-attr]
    mine = {id(p) for p in made.model.parameters()}
    learnt = {id(p) for group in parameter_groups(made.model, config) for p in group["params"]}
    assert not (mine | learnt) & {id(p) for p in weights}
    assert not any("speech" in name for name in made.model.state_dict())


@pytest.mark.parametrize("kind", ["wav2vec2", "wav2vec", "whisper"])
def test_a_model_directory_holds_its_encoder(
    lexical: Path, encoders: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    path = shutil.copytree(encoders[kind], tmp_path / "encoder")
    (path / "optimizer.pt").write_text("not wanted")
    torch.manual_seed(1)
    made = checkpoint.create(options(lexical, path))
    checkpoint.save(made, tmp_path / "model")
    checkpoint.save(made, tmp_path / "model")  # as training does, again and again
    checkpoint.save(made, tmp_path / "best")
    words = [Word("so", 0.1, 0.2), Word("it", 0.4, 0.2)]
    before = Punctuator(made)(words, audio=noise(1.0, 8000))
    assert before.used_audio
    shutil.rmtree(path)
    moved = (tmp_path / "model").rename(tmp_path / "moved")
    assert not (moved / "speech" / "optimizer.pt").exists()
    for directory in (moved, tmp_path / "best"):
        punctuator = Punctuator(checkpoint.load(directory))
        assert punctuator.frame_kind == made.source.kind  # type: ignore[union-attr]
        punctuator.load_hearing()
        assert punctuator(words, audio=noise(1.0, 8000)).words == before.words
    # Trained on: the copy goes along, also where the name leads nowhere.
    checkpoint.save(checkpoint.load(moved), tmp_path / "further")
    shutil.rmtree(moved)
    Punctuator(checkpoint.load(tmp_path / "further")).load_hearing()


def test_a_model_directory_that_names_its_encoder(lexical: Path, encoders: dict[str, Path], tmp_path: Path) -> None:
    path = shutil.copytree(encoders["hubert"], tmp_path / "a" / "b" / "encoder")
    made = checkpoint.create(options(lexical, path, "train.copy_speech=false"))
    checkpoint.save(made, tmp_path / "model")
    assert not (tmp_path / "model" / "speech").exists()
    values = json.loads((tmp_path / "model" / "config.json").read_text())
    assert values["speech"]["name"] == str(path)
    words = [Word("so", 0.1, 0.2)]
    punctuator = Punctuator(checkpoint.load(tmp_path / "model"))
    assert punctuator(words, audio=noise(1.0)).used_audio
    path.rename(tmp_path / "elsewhere")
    deaf = Punctuator(checkpoint.load(tmp_path / "model"))
    assert not deaf(words).used_audio  # what needs no encoder goes on without
    with pytest.raises(CheckpointError) as e:
        deaf(words, audio=noise(1.0))
    assert str(e.value) == (
        f"{tmp_path}/model: expected its speech encoder in {tmp_path}/model/speech or at {str(path)!r}, got neither "
        f"({path}: expected a speech encoder's directory or a Hugging Face hub name, got neither; check the path (it "
        f"is relative to the working directory)); copy the encoder's directory to {tmp_path}/model/speech"
    )
    shutil.copytree(tmp_path / "elsewhere", tmp_path / "model" / "speech")
    deaf.load_hearing()


def test_another_encoder_in_its_place(lexical: Path, encoders: dict[str, Path], tmp_path: Path) -> None:
    path = shutil.copytree(encoders["hubert"], tmp_path / "encoder")
    checkpoint.save(checkpoint.create(options(lexical, path, "train.copy_speech=false")), tmp_path / "model")
    shutil.rmtree(path)
    torch.manual_seed(14)
    make_hf("hubert").save_pretrained(path)
    before, after = (describe(p, -1).kind.sha256[:12] for p in (encoders["hubert"], path))
    with pytest.raises(CheckpointError) as e:
        Punctuator(checkpoint.load(tmp_path / "model")).load_hearing()
    assert str(e.value) == (
        f"{path}: expected the speech encoder that the model was trained with (weights of sha256 {before}…), got "
        f"another ({after}…); put that one back"
    )


def test_an_encoder_on_the_hub_is_named_unless_it_is_to_be_copied(
    lexical: Path, encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def download(name: str, allow_patterns: list[str]) -> str:
        asked.append((name, allow_patterns))
        return str(encoders["wavlm"])

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    made = checkpoint.create(options(lexical, "org/wavlm"))
    checkpoint.save(made, tmp_path / "named")
    assert not (tmp_path / "named" / "speech").exists()
    assert asked == [("org/wavlm", ["*.json", "*.safetensors"])]
    Punctuator(checkpoint.load(tmp_path / "named")).load_hearing()
    made.copy_speech = True
    checkpoint.save(made, tmp_path / "copied")
    assert (tmp_path / "copied" / "speech" / "model.safetensors").is_file()


def test_weights_of_pytorch_alone(encoders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = shutil.copytree(encoders["wavlm"], tmp_path / "e")
    (directory / "model.safetensors").unlink()
    weights = AutoModel.from_pretrained(encoders["wavlm"]).state_dict()
    asked: list[list[str]] = []

    def download(name: str, allow_patterns: list[str]) -> str:
        asked.append(allow_patterns)
        if "pytorch_model*.bin" in allow_patterns:
            torch.save(weights, directory / "pytorch_model.bin")
        return str(directory)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    source = SpeechFrames.of("org/wavlm", -1)
    assert asked == [["*.json", "*.safetensors"], ["*.json", "pytorch_model*.bin"]]
    sound = noise(0.3)
    np.testing.assert_allclose(source.frames(sound), SpeechFrames.of(str(encoders["wavlm"]), -1).frames(sound))


def test_no_such_encoder(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError) as e:
        SpeechFrames.of(f"{tmp_path}/nowhere", -1)
    assert str(e.value) == (
        f"model.speech: {tmp_path}/nowhere: expected a speech encoder's directory or a Hugging Face hub name, got "
        "neither; check the path (it is relative to the working directory)"
    )
    with pytest.raises(CheckpointError, match=r"^model\.speech: org/none: expected a speech encoder's directory or a "
                       r"Hugging Face hub name, got no such directory, and of the hub: "):  # fmt: skip
        SpeechFrames.of("org/none", -1)
    with pytest.raises(CheckpointError) as e:
        SpeechFrames.of(str(tmp_path), -1)
    assert str(e.value) == (
        f"model.speech: {tmp_path}: expected a speech encoder's directory with config.json, got one without it"
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("[1]", "{path}/config.json: expected a JSON object, got list"),
        ("{", "{path}/config.json: expected JSON, got: "),
        ('{"model_type": "nonsense"}', "{path}: expected a speech encoder's config.json, got: "),
        (
            '{"model_type": "bert"}',
            NO_ENCODER.format("bert"),
        ),
        (
            '{"model_type": "wav2vec2", "add_adapter": true}',
            NO_ENCODER.format("wav2vec2"),
        ),
        (
            '{"model_type": "wav2vec2"}',
            "{path}: expected an encoder's weights (*.safetensors), got none; copy it anew",
        ),
    ],
)
def test_a_directory_that_is_no_encoder(tmp_path: Path, config: str, message: str) -> None:
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(CheckpointError) as e:
        SpeechFrames.of(str(tmp_path), -1)
    assert str(e.value).startswith("model.speech: " + message.replace("{path}", str(tmp_path)))


def test_broken_and_missing_weights(encoders: dict[str, Path], tmp_path: Path) -> None:
    path = shutil.copytree(encoders["wavlm"], tmp_path / "cut")
    (path / "model.safetensors").write_bytes((path / "model.safetensors").read_bytes()[:1000])
    with pytest.raises(CheckpointError, match=rf"^{path}: expected weights that fit config\.json, got: .*copy it anew"):
        SpeechFrames.of(str(path), -1).load()
    path = tmp_path / "deeper"
    make_hf("wavlm").save_pretrained(path)
    values = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**values, "num_hidden_layers": 3}))
    with pytest.raises(CheckpointError, match=rf"^{path}: expected all weights of config\.json, got none for \d+, "
                       r"first 'encoder\.layers\.2\.[\w.]+'; copy it anew$"):  # fmt: skip
        SpeechFrames.of(str(path), -1).load()


@pytest.mark.parametrize(
    ("kind", "layer", "choice"),
    [("hubert", 3, "-1 (the output) or 0..2"), ("wav2vec", 1, "-1 (the output)"), ("wav2vec", 0, "-1 (the output)")],
)
def test_no_such_layer(encoders: dict[str, Path], kind: str, layer: int, choice: str) -> None:
    with pytest.raises(ConfigError) as e:
        SpeechFrames.of(str(encoders[kind]), layer)
    assert str(e.value) == f"model.speech_layer: expected {choice} for '{encoders[kind]}', got {layer}"


def test_an_encoder_that_makes_other_frames_than_it_says(sources: dict[str, SpeechFrames]) -> None:
    source = sources["wavlm"]
    wrong = dataclasses.replace(source.described, kind=dataclasses.replace(source.kind, shift_samples=160))
    with pytest.raises(CheckpointError) as e:
        speech_encoders.extract(source._loaded(), wrong, noise(1.0).samples)
    assert str(e.value) == (
        "wavlm: expected 98 frames of 12 numbers by its config.json, got (49, 12); take another model.speech"
    )


def test_who_may_hear_with_a_lookahead(encoders: dict[str, Path], tmp_path: Path) -> None:
    def source_of(path: Path) -> object:
        return make_source(ModelConfig(acoustic="speech", speech=str(path), lookahead=0, fusion="forced_alignment"))

    assert source_of(encoders["wav2vec"])
    write_speech_encoder("wav2vec", tmp_path / "w", norm="utterance")
    for path, kind in ((encoders["hubert"], "hubert"), (tmp_path / "w", "wav2vec")):
        with pytest.raises(ConfigError) as e:
            source_of(path)
        assert str(e.value) == (
            f"model.lookahead: expected null with model.speech {str(path)!r} ({kind}), whose frames hear all of the "
            "sound; take a wav2vec of ours with norm 'frame', or melspec"
        )


@pytest.mark.parametrize("kind", ["hubert", "whisper", "wav2vec"])
@pytest.mark.parametrize("fusion", ["onset", "attention"])
def test_what_is_missing_is_legal(lexical: Path, encoders: dict[str, Path], kind: str, fusion: str) -> None:
    made = checkpoint.create(options(lexical, encoders[kind], f"model.fusion={fusion}"))
    punctuator = Punctuator(made)
    words = [Word("so", 0.1, 0.2), Word("what", 0.5, 0.3), Word("is", 0.9, 0.1)]
    untimed = [Word(w.word) for w in words]
    sound, tiny = noise(1.2, 8000), Audio(np.zeros(10, np.float32), 8000)
    whole = punctuator(words, audio=sound)
    assert whole.used_audio
    for spoken in (words, untimed):
        deaf = punctuator(spoken)
        assert not deaf.used_audio
        assert punctuator(spoken, audio=tiny).words == deaf.words  # shorter than any window
    assert punctuator(untimed, audio=sound).used_audio == (fusion == "attention")
    late = dataclasses.replace(sound, start_s=500.0)
    assert not punctuator(words, audio=late).used_audio
    partly = punctuator([*words, Word("late", 400.0, 0.2), Word("none")], audio=sound)
    assert partly.used_audio
    assert len(partly.words) == 5


@pytest.mark.parametrize("kind", ["wav2vec2", "wav2vec"])
def test_a_service_hears_as_the_model_does(lexical: Path, encoders: dict[str, Path], kind: str) -> None:
    made = checkpoint.create(options(lexical, encoders[kind]))
    made.name = "speech"
    punctuator = Punctuator(made)
    words = [Word("so", 0.1, 0.2), Word("what", 0.5, 0.3)]
    samples = np.round(noise(1.0, 8000).samples * 32768).astype(np.int16)
    offline = punctuator(words, audio=Audio(samples.astype(np.float32) / 32768, 8000))
    with running_server({"speech": punctuator}) as address, Client(address) as client:
        online = client.punctuate(words, audio=samples, sample_rate_hz=8000)
    assert online.used_audio
    assert [w.mark_prob for w in online.words] == pytest.approx([w.mark_prob for w in offline.words], abs=1e-4)
    deaf = punctuator(words)
    assert [w.mark_prob for w in deaf.words] != pytest.approx([w.mark_prob for w in offline.words], abs=1e-4)


def test_kaldis_frames_are_a_source_too() -> None:
    sound = noise(1.0)
    for name in ("melspec", "pitch", "prosody"):
        source = KaldiFrames(name, 8000)
        source.use("cpu")
        source.load()
        frames = source.frames(sound)
        assert np.array_equal(frames, features.compute(name, resample(sound, 8000)))
        assert frames.shape == (source.kind.n_frames(8000), source.kind.dim)
        assert source.kind.frame_shift_s == features.FRAME_SHIFT_S
    assert make_source(ModelConfig()) is None
