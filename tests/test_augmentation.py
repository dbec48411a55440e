"""N-best augmentation: what training learns from a decoder's hypotheses."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tiny import write_data_dir, write_encoder

from kaldi_punct.augmentation import FOLDER, NbestReader, nbest_reader
from kaldi_punct.batch import IGNORE, Example, collate
from kaldi_punct.config import Config, DataConfig, TrainConfig
from kaldi_punct.corpora import count_training_words, fit_normaliser
from kaldi_punct.dataset import LabelledConversation, count_words, mixed_lexicon, read_conversations
from kaldi_punct.epochs import EpochExamples
from kaldi_punct.errors import ConfigError
from kaldi_punct.kaldi.data_dir import Conversation, DataDir
from kaldi_punct.kaldi.nbest_lists import NbestLists
from kaldi_punct.labels import DEFAULT_LABELS
from kaldi_punct.models.muse import Logits
from kaldi_punct.models.objective import label_loss
from kaldi_punct.training import train
from kaldi_punct.windows import Sound


class Letters:
    """One piece a letter."""

    cls_id, sep_id, unk_id = 0, 1, 2

    def __call__(self, word: str) -> tuple[int, ...]:
        return tuple(3 + ord(c) % 90 for c in word)


def write_lists(directory: Path, lists: dict[str, Sequence[str]], ac_step: float = 10.0) -> Path:
    """A data directory's lists: words half a second apart from 0.25 s on; each hypothesis costs ``ac_step`` more."""
    folder = directory / FOLDER
    folder.mkdir(parents=True)
    keyed = {f"{u}-{k}": text for u, texts in lists.items() for k, text in enumerate(texts, 1)}
    (folder / "words").write_text("".join(f"{key} {text}\n" for key, text in keyed.items()))
    (folder / "lm_cost").write_text("".join(f"{key} 1\n" for key in keyed))
    (folder / "ac_cost").write_text("".join(f"{k} {int(k.rpartition('-')[2]) * ac_step}\n" for k in keyed))
    (folder / "ctm").write_text(
        "".join(
            f"{key} 1 {0.25 + 0.5 * i:.2f} 0.25 {word}\n"
            for key, text in keyed.items()
            for i, word in enumerate(text.split())
        )
    )
    return directory


REFERENCE = {"u1": "Do you see it? Yes, I see the sea.", "u2": "Well, we do."}
LISTS = {
    "u1": (
        "do you see it yes i see the sea",  # the reference's own words
        "do you seat yes i see the sea",
        "do you see it yes i see this sea",
        "do you seat yes i see the sea",  # a second time
    ),
    "u2": ("well we to", "we do"),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "train"
    directory.mkdir()
    (directory / "text_punct").write_text("".join(f"{u} {text}\n" for u, text in REFERENCE.items()))
    (directory / "utt2spk").write_text("u1 anna\nu2 ben\n")
    return write_lists(directory, LISTS)


def read(data: Path, read_sound: object = None, **options: object) -> list[LabelledConversation]:
    directory = DataDir(data)
    hypotheses = nbest_reader(directory, TrainConfig(**options))  # type: ignore[arg-type]
    out, _ = read_conversations(
        directory,
        Letters(),
        DEFAULT_LABELS,
        read_hypotheses=hypotheses,
        read_sound=read_sound,  # type: ignore[arg-type]
    )
    return out


def told(conversation: LabelledConversation) -> str:
    return " ".join(w.word + (w.mark or "") for w in conversation.labels)


def test_no_lists_are_read_unless_asked_for(data: Path) -> None:
    assert [(c.rec_id, c.rank, c.weights) for c in read(data)] == [("u1", 0, None), ("u2", 0, None)]


def test_marks_are_projected_and_doubles_left_out(data: Path) -> None:
    heard = read(data, nbest=4)
    assert [(c.rec_id, c.rank, told(c)) for c in heard] == [
        ("u1", 0, "do you see it? yes, i see the sea."),
        ("u1", 2, "do you seat? yes, i see the sea."),
        ("u1", 3, "do you see it? yes, i see this sea."),
        ("u2", 0, "well, we do."),
        ("u2", 1, "well, we to."),
        ("u2", 2, "we do."),
    ]
    assert all(c.weights is None for c in heard)
    assert [c.rank for c in read(data, nbest=1)] == [0, 0, 1]


def test_times_and_speakers_are_each_hypothesis_own(data: Path) -> None:
    own, seat, *_ = read(data, nbest=2)
    assert np.isnan(own.track.start_s).all()
    assert seat.track.start_s.tolist() == [0.25 + 0.5 * i for i in range(8)]
    assert seat.track.end_s.tolist() == [0.5 + 0.5 * i for i in range(8)]


def test_weights_are_posteriors_of_the_list(data: Path) -> None:
    heard = read(data, nbest=4, nbest_weights="posterior", nbest_acoustic_scale=0.05)
    parts = [math.exp(-0.05 * 10.0 * k) for k in (1, 2, 3, 4)]
    weights = {(c.rec_id, c.rank): None if c.weights is None else c.weights[0] for c in heard}
    assert weights[("u1", 0)] is None
    # The fourth is the second once more; the first is the reference, so its share counts nowhere.
    assert weights[("u1", 2)] == pytest.approx((parts[1] + parts[3]) / sum(parts))
    assert weights[("u1", 3)] == pytest.approx(parts[2] / sum(parts))
    assert weights[("u2", 1)] == pytest.approx(parts[0] / (parts[0] + parts[1]))
    # Of the two best alone.
    two = read(data, nbest=2, nbest_weights="posterior", nbest_acoustic_scale=0.05)
    assert two[1].weights is not None
    assert two[1].weights[0] == pytest.approx(parts[1] / (parts[0] + parts[1]))
    other = read(data, nbest=2, nbest_weights="posterior", nbest_acoustic_scale=0.5)
    assert other[1].weights is not None
    assert other[1].weights[0] < two[1].weights[0]


def test_sound_is_computed_once_and_shared(data: Path) -> None:
    asked: list[str] = []

    def hear(conversation: Conversation) -> Sound:
        asked.append(conversation.rec_id)
        return Sound(np.zeros((600, 80), np.float32), 0.01)

    heard = read(data, hear, nbest=4)
    assert asked == ["u1", "u2"]
    assert all(c.track.sound is not None for c in heard)
    assert len({id(c.track.sound.frames) for c in heard if c.track.sound}) == 2


def test_lost_marks_are_counted_by_rank(data: Path) -> None:
    directory = DataDir(data)
    hypotheses = nbest_reader(directory, TrainConfig(nbest=3))
    _, tally = read_conversations(directory, Letters(), DEFAULT_LABELS, read_hypotheses=hypotheses)
    # "Well," has no word before it in "we do".
    assert {rank: (t.n_conversations, t.n_words, t.n_marks, t.n_marks_lost) for rank, t in tally.ranks.items()} == {
        1: (1, 3, 2, 0),
        2: (2, 10, 5, 1),
        3: (1, 9, 3, 0),
    }
    assert str(tally).splitlines()[2] == (
        "hypotheses 2: 2 conversations, 10 words, 5 marks (1 lost in projection, 20.0 %), "
        "0 utterances without reference"
    )
    assert str(hypotheses) == "1 hypotheses were there already, 0 utterances have no list, 0 a broken one"


def test_utterances_of_a_conversation_count_each_by_its_own_list(tmp_path: Path) -> None:
    """Where one has no hypothesis of a rank, its best stands there as context alone; times are the recording's."""
    directory = tmp_path / "train"
    directory.mkdir()
    (directory / "text_punct").write_text("r-a Do you?\nr-b Yes, I do.\nr-c No.\n")
    (directory / "segments").write_text("r-a r 0 2\nr-b r 10 14\nr-c r 20 21\n")
    (directory / "utt2spk").write_text("r-a anna\nr-b ben\nr-c ben\n")
    write_lists(directory, {"r-a": ("to you", "two you"), "r-b": ("yes i to",)})
    own, first, second = read(directory, nbest=5)
    assert told(own) == "do you? yes, i do. no."
    assert told(first) == "to you? yes, i to. no"
    assert first.weights is not None
    assert first.weights.tolist() == [1, 1, 1, 1, 1, 0]
    assert first.marks[-1] == first.cases[-1] == IGNORE
    assert first.track.start_s[:5].tolist() == [0.25, 0.75, 10.25, 10.75, 11.25]
    assert math.isnan(first.track.start_s[5])
    assert told(second) == "two you? yes i to no"
    assert second.weights is not None
    assert second.weights.tolist() == [1, 1, 0, 0, 0, 0]
    assert (second.marks[2:] == IGNORE).all()
    assert second.describe(0, 2) == "r hypothesis 2 words 1-2 (r-a .. r-a)"


def test_a_broken_list_is_reported_and_counted(data: Path, caplog: pytest.LogCaptureFixture) -> None:
    (data / FOLDER / "ac_cost").write_text("u1-1 1\nu2-1 1\nu2-2 2\n")
    directory = DataDir(data)
    hypotheses = nbest_reader(directory, TrainConfig(nbest=2))
    assert hypotheses is not None
    out, _ = read_conversations(directory, Letters(), DEFAULT_LABELS, read_hypotheses=hypotheses)
    assert [(c.rec_id, c.rank) for c in out] == [("u1", 0), ("u2", 0), ("u2", 1), ("u2", 2)]
    assert (hypotheses.n_bad, hypotheses.n_without_list) == (1, 0)
    assert "u1: expected a cost of each hypothesis" in caplog.text


def test_words_of_hypotheses_are_counted_but_make_no_lexicon(data: Path) -> None:
    directory = DataDir(data)
    assert count_words(directory, DEFAULT_LABELS)["seat"] == 0
    hypotheses = nbest_reader(directory, TrainConfig(nbest=4))
    assert count_words(directory, DEFAULT_LABELS, read_hypotheses=hypotheses)["seat"] == 1
    (data / "text_punct").write_text("u1 A McDonald.\nu2 Well, we do.\n")
    lists = {"u1": ("a mcdonald oh", "the mcdonald")}
    for name in ("words", "lm_cost", "ac_cost", "ctm"):
        (data / FOLDER / name).unlink()
    (data / FOLDER).rmdir()
    write_lists(data, lists)
    out = read(data, nbest=2)
    assert len(out) == 4
    assert mixed_lexicon(out, min_count=2) == {}


def test_a_vocabulary_of_whole_words_has_those_of_hypotheses(data: Path) -> None:
    assert count_training_words([data], Config.load(None, ["train.nbest=4"]))["seat"] == 1
    assert count_training_words([data], Config.load(None, []))["seat"] == 0


def test_sound_has_its_part_in_the_normaliser_once(data: Path) -> None:
    def hear(conversation: Conversation) -> Sound:
        # Of the two, "u1" has more hypotheses that share its sound.
        value, n = (1.0, 300) if conversation.rec_id == "u1" else (4.0, 600)
        return Sound(np.full((n, 80), value, np.float32), 0.01)

    model = SimpleNamespace(acoustic=SimpleNamespace(mean=torch.zeros(80), std=torch.ones(80)))
    fit_normaliser(model, read(data, hear, nbest=3))  # type: ignore[arg-type]
    assert model.acoustic.mean[0] == pytest.approx(3.0)


def epoch(conversations: list[LabelledConversation], number: int, n: int, repeats: int = 1) -> EpochExamples:
    return EpochExamples(
        conversations,
        [repeats] * len(conversations),
        Letters(),  # type: ignore[arg-type]
        DataConfig(max_pieces=64, crop_prob=0.0),
        seed=1,
        epoch=number,
        batch_pieces=64,
        nbest_per_epoch=n,
    )


def sources(examples: EpochExamples) -> list[str]:
    return sorted(e.source for b in examples.batches() for e in b)


def test_hypotheses_are_drawn_anew_in_each_epoch(data: Path) -> None:
    heard = read(data, nbest=4)
    drawn = [sources(epoch(heard, number, 1)) for number in range(12)]
    assert all(len(s) == 4 and sum("hypothesis" not in x for x in s) == 2 for s in drawn)
    assert {x for s in drawn for x in s} == set(sources(epoch(heard, 0, 0)))
    assert len(sources(epoch(heard, 0, 0))) == 6
    assert sources(epoch(heard, 3, 1)) == drawn[3]
    assert sources(epoch(heard, 0, 2)) == sources(epoch(heard, 0, 4)) == sources(epoch(heard, 0, 0))
    assert len(sources(epoch(heard, 0, 1, repeats=3))) == 12


def test_weights_reach_the_batch(data: Path) -> None:
    heard = read(data, nbest=2, nbest_weights="posterior", nbest_acoustic_scale=0.1)
    examples = [e for b in epoch(heard, 0, 0).batches() for e in b]
    weights = {e.source: e.weights for e in examples}
    assert sum(w is None for w in weights.values()) == 2
    batch = collate(examples)
    assert batch.weights is not None
    assert batch.weights.shape == batch.word_mask.shape
    for row, e in zip(batch.weights, examples, strict=True):
        assert row[: e.n_words].tolist() == ([1.0] * e.n_words if e.weights is None else e.weights.tolist())
    assert collate([e for e in examples if e.weights is None]).weights is None


def test_a_weight_is_a_factor_of_the_loss_of_its_words() -> None:
    torch.manual_seed(3)
    logits = Logits(torch.randn(2, 3, 4), torch.randn(2, 3, 4))
    marks = torch.tensor([[0, 1, 2], [3, 0, IGNORE]])
    cases = torch.tensor([[0, 1, IGNORE], [3, 0, 1]])
    plain = label_loss(logits, marks, cases, 0.4, 0.1)
    ones = torch.ones(2, 3)
    assert label_loss(logits, marks, cases, 0.4, 0.1, weights=ones) == pytest.approx(float(plain))
    assert label_loss(logits, marks, cases, 0.4, 0.1, weights=0.25 * ones) == pytest.approx(0.25 * float(plain))
    first = torch.tensor([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    n = torch.tensor([5, 5])
    alone = label_loss(Logits(logits.marks[:1], logits.cases[:1]), marks[:1], cases[:1], 0.4, n_targets=n)
    assert label_loss(logits, marks, cases, 0.4, weights=first) == pytest.approx(float(alone))


def test_weights_of_unknown_targets_count_for_nothing() -> None:
    logits = Logits(torch.randn(1, 2, 4), torch.randn(1, 2, 4))
    marks = torch.tensor([[1, IGNORE]])
    one, two = (label_loss(logits, marks, marks, 1.0, weights=torch.tensor([[0.5, w]])) for w in (0.0, 9.0))
    assert float(one) == float(two)


SCALE_TEXT = (
    "train.nbest_acoustic_scale: expected the factor of acoustic costs (often 0.1 for a chain model, 1/12 for a GMM) "
    "with posteriors, got None"
)


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (
            ["train.nbest_weights=other"],
            "train.nbest_weights: expected one of ('equal', 'posterior'), got 'other'",
        ),
        (
            ["train.nbest=3", "train.nbest_weights=posterior"],
            SCALE_TEXT,
        ),
        (
            ["train.nbest=3", "train.nbest_per_epoch=4"],
            "train.nbest_per_epoch: expected at most train.nbest (3), got 4",
        ),
        (["train.nbest=-1"], "train.nbest: expected a number of at least 0, got -1"),
    ],
)
def test_options_that_do_not_fit(overrides: list[str], text: str) -> None:
    with pytest.raises(ConfigError) as e:
        Config.load(None, overrides)
    assert str(e.value) == text


def test_posteriors_need_costs(data: Path) -> None:
    (data / FOLDER / "lm_cost").unlink()
    options = TrainConfig(nbest=2, nbest_weights="posterior", nbest_acoustic_scale=0.1)
    with pytest.raises(ConfigError) as e:
        NbestReader(DataDir(data), NbestLists(data / FOLDER), options)
    assert str(e.value) == (
        f"train.nbest_weights: expected tables lm_cost and ac_cost in {data / FOLDER} for 'posterior', got none; "
        "write the lists with kaldi-punct nbest, or set it to 'equal'"
    )


OPTIONS = [
    "model.n_layers=2",
    "model.timing_dim=8",
    "data.max_pieces=64",
    "train.batch_pieces=128",
    "train.n_threads=1",
    "train.n_epochs=2",
    "train.save_every_steps=2",
]


def heard_lists(data: Path) -> dict[str, list[str]]:
    """Three hypotheses a recording: a word lost, a word wrong, both."""
    lists = {}
    for line in (data / "text_punct").read_text().splitlines():
        utt_id, *tokens = line.split(" ")
        words = [t.strip(",.?").lower() for t in tokens]
        lists[utt_id] = [" ".join(w) for w in (words[1:], ["the", *words[1:]], ["the", *words[2:]])]
    return lists


@pytest.mark.slow
def test_training_goes_on_exactly_with_drawn_hypotheses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after a step and gone on with, it ends in the weights of a run that was not stopped."""
    encoder = write_encoder(tmp_path / "encoder")
    data = write_data_dir(tmp_path / "train", n_utts=2)
    write_lists(data, heard_lists(data))
    more = [
        "train.nbest=3",
        "train.nbest_per_epoch=1",
        "train.nbest_weights=posterior",
        "train.nbest_acoustic_scale=0.1",
    ]
    config = Config.load(None, [f"model.encoder={encoder}", *OPTIONS, *more])
    with caplog.at_level(logging.INFO):
        train(data, [], tmp_path / "whole", config)
    assert "hypotheses 3: 2 conversations" in caplog.text
    assert f"{data / FOLDER}: 0 hypotheses were there already" in caplog.text
    seen: list[Sequence[Example]] = []

    class StopError(Exception):
        pass

    from kaldi_punct import updates

    real = updates.collate

    def stop_at(examples: Sequence[Example]) -> object:
        seen.append(examples)
        if len(seen) == 3:
            raise StopError
        return real(examples)

    monkeypatch.setattr(updates, "collate", stop_at)
    with pytest.raises(StopError):
        train(data, [], tmp_path / "cut", config)
    monkeypatch.setattr(updates, "collate", real)
    assert (tmp_path / "cut" / "last" / "state.pt").is_file()
    train(data, [], tmp_path / "cut", config)
    whole, cut = (load_file(tmp_path / name / "last" / "model.safetensors") for name in ("whole", "cut"))
    assert all(torch.equal(whole[k], cut[k]) for k in whole)
    # Other weights lead elsewhere.
    train(data, [], tmp_path / "equal", Config.load(None, [f"model.encoder={encoder}", *OPTIONS, *more[:2]]))
    equal = load_file(tmp_path / "equal" / "last" / "model.safetensors")
    assert any(not torch.equal(whole[k], equal[k]) for k in whole)


def test_a_set_without_lists_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    encoder = write_encoder(tmp_path / "encoder")
    data = write_data_dir(tmp_path / "train", n_utts=2)
    with pytest.raises(ConfigError) as e:
        train(data, [], tmp_path / "exp", Config.load(None, [f"model.encoder={encoder}", *OPTIONS, "train.nbest=2"]))
    assert str(e.value) == (
        "train.nbest: expected N-best lists in a folder nbest of a training set, got none that bring other words; "
        "write them with kaldi-punct nbest, or set it to 0"
    )
    assert f"{data}: has no folder nbest: trained on its own words alone" in caplog.text
