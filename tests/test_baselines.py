"""The recurrent baselines: one- and two-directional, of pieces and of words, with embeddings given and from scratch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from nets import assert_alone_equals_in_a_batch, assert_gradient_reaches_every_parameter, build, make_example, run
from tiny import write_encoder
from transformers import AutoModel

from kaldi_punct import checkpoint
from kaldi_punct.config import Config
from kaldi_punct.errors import CheckpointError, FormatError
from kaldi_punct.models.baselines import RecurrentConfig, RecurrentEncoder, read_word_vectors, word_tokenizer
from kaldi_punct.models.lexical import LexicalEncoder
from kaldi_punct.models.muse import Muse, words_later
from kaldi_punct.models.objective import parameter_groups
from kaldi_punct.punctuator import Punctuator

COUNTS = Counter({"so": 3, "you": 2, "think": 2, "rare": 1})


def count() -> Counter[str]:
    return COUNTS


def options(*more: str) -> Config:
    small = ["model.n_layers=2", "model.lexical_dim=6", "model.embedding_dim=5", "model.timing_dim=4"]
    return Config.load(None, [*small, "data.max_pieces=64", *more])


def recurrent(model: Muse) -> RecurrentEncoder:
    assert isinstance(model.lexical, RecurrentEncoder)
    return model.lexical


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize("lexical", ["blstm", "lstm"])
def test_alone_equals_in_a_batch(lexical: str, timing: bool) -> None:
    model = build(lexical=lexical, timing=timing, n_layers=4)
    assert_alone_equals_in_a_batch(model, make_example(3, 1), make_example(9, 2), make_example(1, 3))


@pytest.mark.parametrize("timing", [True, False])
@pytest.mark.parametrize("lexical", ["blstm", "lstm"])
def test_gradients(lexical: str, timing: bool) -> None:
    assert_gradient_reaches_every_parameter(build(lexical=lexical, timing=timing), make_example(7, 1))


def test_the_baselines_of_the_paper() -> None:
    for lexical, directions in (("blstm", 2), ("lstm", 1)):
        config = Config.load(None, [f"model.lexical={lexical}", "model.n_layers=4"]).model
        encoder = recurrent(Muse(config, RecurrentConfig(100, 128)))
        assert (encoder.lstm.num_layers, encoder.lstm.hidden_size, encoder.width) == (4, 128, 128 * directions)
    assert recurrent(build(lexical="lstm", lexical_dim=7)).width == 7


def test_one_direction_does_not_see_what_follows_and_two_do() -> None:
    long, short = make_example(6, 1), make_example(6, 1)
    short.piece_ids[short.word_starts[4] :] = 9
    for lexical, sees in (("lstm", False), ("blstm", True)):
        model = build(lexical=lexical, timing=False)
        a, b = run(model, long).marks[0, :4], run(model, short).marks[0, :4]
        assert torch.equal(a, b) != sees


def test_dropout_stands_between_the_layers() -> None:
    assert recurrent(build(lexical="lstm", encoder_dropout=0.3)).lstm.dropout == 0.3
    assert recurrent(build(lexical="lstm", encoder_dropout=0.3, n_layers=1)).lstm.dropout == 0.0


def test_words_later() -> None:
    words = torch.arange(4.0).reshape(1, 4, 1)
    piece_words = torch.tensor([[-1, 0, 1, 1, 2, -1]])  # the fourth is padding
    assert words_later(words, piece_words, 2).flatten().tolist() == [2.0, 2.0, 2.0, 2.0]
    assert words_later(words, piece_words, 1).flatten().tolist() == [1.0, 2.0, 2.0, 2.0]


@pytest.mark.parametrize("lexical", ["blstm", "lstm"])
@pytest.mark.parametrize("tokens", ["pieces", "words"])
@pytest.mark.parametrize("given", [True, False])
def test_saved_and_loaded_is_the_same(encoder: Path, tmp_path: Path, lexical: str, tokens: str, given: bool) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("so 1 0 0\nwhat 0 1 0\n")
    embeddings = {"pieces": "encoder", "words": vectors}[tokens] if given else "''"
    more = f"model.lexical={lexical}", f"model.tokens={tokens}", f"model.embeddings={embeddings}"
    made = checkpoint.create(options(f"model.encoder={encoder}", *more), count)
    made.model.eval()
    checkpoint.save(made, tmp_path / "model")
    loaded = checkpoint.load(tmp_path / "model")
    assert loaded.config == made.config
    assert loaded.encoder_config == made.encoder_config
    words = ["so", "what", "do", "you", "think"]
    assert Punctuator(loaded)(words) == Punctuator(made)(words)


def test_embeddings_of_an_encoder(encoder: Path) -> None:
    made = checkpoint.create(options(f"model.encoder={encoder}", "model.lexical=blstm", "model.embeddings=encoder"))
    rows = recurrent(made.model).embeddings.weight
    source = AutoModel.from_pretrained(encoder).get_input_embeddings().weight
    assert torch.equal(rows, source)
    scratch = checkpoint.create(options(f"model.encoder={encoder}", "model.lexical=blstm"))
    assert recurrent(scratch.model).embeddings.weight.shape == (len(source), 5)


def test_words_of_the_training_set_and_of_the_file(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("4 3\nSo 1 0 0\nrare 0 1 0\nelse 0 0 1\nso 5 5 5\n")
    more = "model.lexical=lstm", "model.tokens=words"
    made = checkpoint.create(options(*more, f"model.embeddings={vectors}"), count)
    table, rows = made.piece_table(), recurrent(made.model).embeddings.weight
    for word, vector in (("so", [1.0, 0.0, 0.0]), ("SO", [1.0, 0.0, 0.0]), ("else", [0.0, 0.0, 1.0])):
        assert rows[table(word)[0]].tolist() == vector
    assert table("nonesuch") == (made.special_ids[2],)
    scratch = checkpoint.create(options(*more), count)
    assert scratch.piece_table()("rare") == (scratch.special_ids[2],)  # seen only once
    assert scratch.piece_table()("think") != (scratch.special_ids[2],)
    all_words = checkpoint.create(options(*more, "model.word_min_count=1"), count)
    assert all_words.piece_table()("rare") != (all_words.special_ids[2],)


def test_the_vocabulary_does_not_depend_on_the_order_of_words() -> None:
    a, b = word_tokenizer({"x": 2, "y": 2, "z": 3}, 1), word_tokenizer({"z": 3, "y": 2, "x": 2}, 1)
    assert a.to_str() == b.to_str()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "v.txt: expected lines '<word> <number> ...', got an empty file"),
        ("a 1 2\nb 1\n", "v.txt:2: expected a word and 2 numbers, separated by single blanks, got 2 fields"),
        ("a\n", "v.txt:1: expected a word and its numbers, separated by single blanks, got 1 fields"),
        ("a 1 x\n", "v.txt:1: expected a word and its numbers, separated by single blanks, got 3 fields"),
    ],
)
def test_broken_word_vectors(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "v.txt").write_text(text)
    with pytest.raises(FormatError) as e:
        read_word_vectors(tmp_path / "v.txt")
    assert str(e.value) == f"{tmp_path}/{message}"


def test_word_vectors_that_are_not_there_or_no_text(tmp_path: Path) -> None:
    with pytest.raises(FormatError) as e:
        read_word_vectors(tmp_path / "v.txt")
    assert str(e.value) == (
        f"model.embeddings: expected a readable file of word vectors, got {tmp_path}/v.txt: No such file or directory"
    )
    (tmp_path / "v.txt").write_bytes(b"\xff\xfe\x00 1\n")
    with pytest.raises(FormatError, match=rf"^{tmp_path}/v\.txt: expected word vectors as UTF-8 text, got: "):
        read_word_vectors(tmp_path / "v.txt")


def test_an_encoder_that_is_none(tmp_path: Path, encoder: Path) -> None:
    for path in encoder.glob("token*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(
        CheckpointError, match=rf"^model\.encoder: expected a transformers model at '{tmp_path}', got: "
    ):
        checkpoint.create(options(f"model.encoder={tmp_path}", "model.lexical=lstm", "model.embeddings=encoder"))


def test_what_is_pretrained_learns_more_slowly(encoder: Path) -> None:
    config = options(f"model.encoder={encoder}", "model.lexical=lstm", "model.embeddings=encoder", "train.peak_lr=0.5")
    model = checkpoint.create(config).model
    slow = [p for g in parameter_groups(model, config) if g["lr"] == 0.5 for p in g["params"]]
    assert len(slow) == 1
    assert slow[0] is recurrent(model).embeddings.weight
    config = options(f"model.encoder={encoder}", "model.lexical=lstm", "train.peak_lr=0.5")
    assert all(g["lr"] == config.train.head_lr for g in parameter_groups(checkpoint.create(config).model, config))


def test_the_transformer_is_the_default(encoder: Path) -> None:
    made = checkpoint.create(options(f"model.encoder={encoder}"))
    assert isinstance(made.model.lexical, LexicalEncoder)
    assert made.model.lexical.lookahead is None
