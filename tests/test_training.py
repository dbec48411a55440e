"""Training on a tiny set: it learns, it resumes exactly after a kill, and says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny import write_data_dir, write_encoder

import kaldi_punct
from kaldi_punct.config import Config
from kaldi_punct.errors import CheckpointError, ConfigError, FormatError, KaldiPunctError
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.models.muse import Logits
from kaldi_punct.models.objective import label_loss, parameter_groups, set_learning_rate
from kaldi_punct.training import train

OPTIONS = [
    "model.n_layers=2",
    "model.timing_dim=8",
    "model.lstm_dim=8",
    "data.max_pieces=64",
    "train.batch_pieces=128",
    "train.peak_lr=0.003",
    "train.head_lr=0.01",
    "train.n_threads=1",
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data_dir(tmp_path_factory.mktemp("data") / "train")


def options(encoder: Path, *more: str) -> Config:
    return Config.load(None, [f"model.encoder={encoder}", *OPTIONS, *more])


@pytest.mark.slow
def test_it_learns_and_leaves_everything_behind(encoder: Path, data: Path, tmp_path: Path) -> None:
    best = train(data, data, tmp_path / "exp", options(encoder, "train.n_epochs=18", "data.hide_times_prob=0.0"))
    results = [json.loads(line) for line in (tmp_path / "exp" / "results.jsonl").read_text().splitlines()]
    f1 = [r["train"]["micro"]["f1"] for r in results]
    assert len(f1) == 18
    assert max(f1) > 90 > f1[0]
    assert list((tmp_path / "exp" / "tensorboard").iterdir())
    punctuator = kaldi_punct.load(best)
    answers = {a.utt_id: a.text for a in punctuator.stream(DataDir(data))}
    references = dict(line.split(" ", 1) for line in (data / "text_punct").read_text().splitlines())
    assert answers.keys() == references.keys()
    assert sum(answers[u] == references[u] for u in answers) >= len(answers) // 3


@pytest.mark.slow
def test_a_model_that_hears_trains_and_is_heard(encoder: Path, tmp_path: Path) -> None:
    data = write_data_dir(tmp_path / "train", n_utts=4, with_sound=True)
    best = train(data, [], tmp_path / "exp", options(encoder, "model.acoustic=melspec", "train.n_epochs=1"))
    punctuator = kaldi_punct.load(best)
    assert punctuator.info.hears
    state = load_file(best / "model.safetensors")
    assert state["acoustic.std"].min() > 0.1
    assert state["acoustic.mean"].abs().max() > 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        ("model.acoustic=melspec", "model.fusion=attention"),
        ("model.acoustic=pitch", "model.fusion=gate"),
        ("model.acoustic=melspec", "model.fusion=both", "model.lookahead=1"),
        ("model.lexical=blstm", "model.tokens=words", "model.lexical_dim=6"),
        ("model.lexical=lstm", "model.embeddings=encoder", "model.lexical_dim=6", "model.lookahead=0"),
    ],
    ids=lambda more: "-".join(o.partition("=")[2] for o in more),
)
def test_every_kind_of_model_trains_and_is_loaded(encoder: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    data = write_data_dir(tmp_path / "train", n_utts=3, with_sound="acoustic" in more[0])
    best = train(data, data, tmp_path / "exp", options(encoder, "train.max_steps=2", *more))
    state = load_file(best / "model.safetensors")
    assert all(bool(torch.isfinite(t).all()) for t in state.values())
    punctuator = kaldi_punct.load(best)
    answers = list(punctuator.stream(DataDir(data)))
    assert [len(a.words) for a in answers] == [len(u.words) for u in DataDir(data)]
    # Trained on: a run that goes on finds the same model, be its words counted or its embeddings given.
    train(data, [], tmp_path / "more", options(encoder, "train.max_steps=1", f"train.init={best}"))


def test_a_run_that_an_older_version_began_goes_on(encoder: Path, data: Path, tmp_path: Path) -> None:
    train(data, [], tmp_path / "exp", options(encoder, "train.max_steps=1"))
    path = tmp_path / "exp" / "config.yaml"
    later = (
        "fusion:",
        "lookahead:",
        "lexical:",
        "lexical_dim:",
        "tokens:",
        "word_min_count:",
        "embedding",
        "speech",
        "copy_speech",
    )
    lines = [line for line in path.read_text().splitlines() if not line.strip().startswith(later)]
    older = "\n".join(lines).replace("model:\n", "model:\n  onset: true\n")
    path.write_text(older)
    train(data, [], tmp_path / "exp", options(encoder, "train.max_steps=1"))
    path.write_text(older.replace("onset: true", "onset: false"))
    with pytest.raises(ConfigError, match=r"expected the options that this run began with.*fusion: onset"):
        train(data, [], tmp_path / "exp", options(encoder, "train.max_steps=1"))


def test_going_on_from_a_model_takes_its_weights_and_architecture(encoder: Path, data: Path, tmp_path: Path) -> None:
    first = train(data, [], tmp_path / "first", options(encoder, "train.max_steps=3", "model.timing_dim=6"))
    still = ("train.max_steps=1", "train.peak_lr=0.0", "train.head_lr=0.0", f"train.init={first}")
    second = train(data, [], tmp_path / "second", options(encoder, *still))
    before, after = load_file(first / "model.safetensors"), load_file(second / "model.safetensors")
    assert all(torch.equal(before[k], after[k]) for k in before)
    assert kaldi_punct.load(second)._config.timing_dim == 6


def first_steps(encoder: Path, data: Path, exp_dir: Path, *more: str) -> dict[str, torch.Tensor]:
    """The weights after three steps: AdamW's first step hides the size of a gradient."""
    more = ("data.max_pieces=32", "train.max_steps=3", *more)
    return load_file(train(data, [], exp_dir, options(encoder, *more)) / "model.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize(
    "option",
    [
        "train.case_weight=0.9",
        "train.max_grad_norm=0.0001",
        "train.weight_decay=0.5",
        "train.precision=bf16",
        "train.seed=2",
        "train.label_smoothing=0.2",
        "train.layer_decay=0.5",
        "train.accumulate=2",
        "model.encoder_dropout=0.5",
        "data.mask_words=0",
    ],
)
def test_options_of_training_are_not_ignored(encoder: Path, data: Path, tmp_path: Path, option: str) -> None:
    plain = first_steps(encoder, data, tmp_path / "plain")
    other = first_steps(encoder, data, tmp_path / "other", option)
    assert any(not torch.equal(plain[k], other[k]) for k in plain)


def test_dev_words_are_limited(encoder: Path, data: Path, tmp_path: Path) -> None:
    def n_slots(*more: str) -> int:
        exp = tmp_path / ("limited" if more else "whole")
        train(data, data, exp, options(encoder, "train.max_steps=1", *more))
        return int(json.loads((exp / "results.jsonl").read_text())["train"]["n_slots"])

    assert 0 < n_slots("train.dev_max_words=40") < n_slots()


def test_architecture_follows_the_options(encoder: Path) -> None:
    from kaldi_punct import checkpoint

    made = checkpoint.create(options(encoder, "model.acoustic=pitch", "model.conv_kernel=3", "model.lstm_dim=6")).model
    shapes = {tuple(p.shape) for name, p in made.named_parameters() if name.startswith("acoustic.")}
    assert any(shape[-2:] == (4, 3) for shape in shapes if len(shape) == 3)
    assert (4 * 6, 6) in shapes


def test_a_run_with_other_options_is_not_mixed_up(encoder: Path, data: Path, tmp_path: Path) -> None:
    train(data, [], tmp_path / "exp", options(encoder, "train.max_steps=1"))
    with pytest.raises(ConfigError, match=r"config\.yaml: expected the options that this run began with.*seed: 2"):
        train(data, [], tmp_path / "exp", options(encoder, "train.max_steps=1", "train.seed=2"))


@pytest.mark.parametrize("option", ["train.n_epochs=0", "train.repeats=[0]"])
def test_nothing_to_learn_from(encoder: Path, data: Path, tmp_path: Path, option: str) -> None:
    with pytest.raises(ConfigError, match=rf"^train\.n_epochs, train\.repeats: expected something.*epochs of {data}$"):
        train(data, [], tmp_path / "exp", options(encoder, option))


def test_repeats_must_match_the_training_sets(encoder: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"train\.repeats: expected 1 values, one for each training set, got 2"):
        train(data, [], tmp_path / "exp", options(encoder, "train.repeats=[1,2]"))


def test_a_set_without_reference(encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "text").write_text("u1 hello you\n")
    with pytest.raises(FormatError, match="expected a table text_punct"):
        train(tmp_path / "d", [], tmp_path / "exp", options(encoder))


def test_hearing_without_sound(encoder: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.acoustic: expected training sets with sound"):
        train(data, [], tmp_path / "exp", options(encoder, "model.acoustic=melspec"))


def test_a_loss_that_is_not_finite_stops(encoder: Path, data: Path, tmp_path: Path) -> None:
    message = (
        r"^step \d+: expected a finite loss, got nan at utt\d\d words 1-\d+(; utt\d\d words \d+-\d+)*; look at these "
        r"words and their sound, or begin a new run with lower train\.peak_lr \(now 0\.003\) and train\.head_lr \(now "
        r"1e\+30\)$"
    )
    with pytest.raises(KaldiPunctError, match=message):
        train(
            data,
            [],
            tmp_path / "exp",
            options(encoder, "train.head_lr=1e30", "train.warmup_share=0.0", "train.n_epochs=4"),
        )


def test_more_layers_than_the_encoder_has(encoder: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"model\.n_layers: expected at most 2 for .*, got 3"):
        train(data, [], tmp_path / "exp", options(encoder, "model.n_layers=3"))


def test_windows_longer_than_the_encoder_reaches(encoder: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data\.max_pieces: expected at most 128 for .*, got 129"):
        train(data, [], tmp_path / "exp", options(encoder, "data.max_pieces=129", "train.batch_pieces=129"))


def test_going_on_with_windows_longer_than_the_model_reaches(encoder: Path, data: Path, tmp_path: Path) -> None:
    first = train(data, [], tmp_path / "first", options(encoder, "train.max_steps=1"))
    longer = ("data.max_pieces=129", "train.batch_pieces=129", f"train.init={first}")
    with pytest.raises(ConfigError, match=rf"^data\.max_pieces: expected at most 128 for '{first}', got 129$"):
        train(data, [], tmp_path / "second", options(encoder, *longer))


def test_an_encoder_that_is_none(data: Path, tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=rf"^model\.encoder: expected a transformers model at '{tmp_path}', got: "
    ):
        train(data, [], tmp_path / "exp", options(tmp_path))


@pytest.mark.parametrize(
    ("text", "text_punct", "error"),
    [
        (
            "u1 hello you",
            "u2 Hello, you.",
            r"a table text_punct \('<utt-id> Hello, how .*'\) of its utterances, got none",
        ),
        ("u1 <unk>", "u1 Hello, you.", "utterances with a reference in text_punct, got none"),
    ],
)
def test_references_of_other_utterances_or_of_no_words(
    encoder: Path, tmp_path: Path, text: str, text_punct: str, error: str
) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "text").write_text(f"{text}\n")
    (tmp_path / "d" / "text_punct").write_text(f"{text_punct}\n")
    with pytest.raises(FormatError, match=rf"^{tmp_path}/d: expected {error}$"):
        train(tmp_path / "d", [], tmp_path / "exp", options(encoder))


def test_no_such_encoder(data: Path, tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"model\.encoder: expected the installed package 'no_such_thing', got none"
    ):
        train(data, [], tmp_path / "exp", options(Path("package:no_such_thing/model")))


def test_unknown_targets_count_for_nothing() -> None:
    logits = Logits(torch.randn(1, 3, 4), torch.randn(1, 3, 4))
    marks, cases = torch.tensor([[1, -100, 2]]), torch.full((1, 3), -100)
    expected = torch.nn.functional.cross_entropy(logits.marks[0, [0, 2]], torch.tensor([1, 2]))
    torch.testing.assert_close(label_loss(logits, marks, cases, 0.5), expected)
    with_case = label_loss(logits, marks, torch.tensor([[0, -100, -100]]), 0.5)
    assert with_case > expected


def test_learning_rate_rises_and_falls_to_zero() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    rates = []
    for step in range(101):
        set_learning_rate(optimizer, [1.0], step, 100, 0.1)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == pytest.approx(1.0)
    assert rates[100] == 0.0
    assert rates[:10] == sorted(rates[:10])
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_parameter_groups(encoder: Path) -> None:
    from kaldi_punct import checkpoint

    config = options(encoder)
    groups = parameter_groups(checkpoint.create(config).model, config)
    assert sorted((g["lr"], g["weight_decay"]) for g in groups) == [
        (0.003, 0.0),
        (0.003, 0.01),
        (0.01, 0.0),
        (0.01, 0.01),
    ]
