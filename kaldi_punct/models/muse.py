"""MuSe: truncated transformer, timing features and sound, fused (Sunkara et al., 2020); baselines in the same frame.

One model serves with and without word times, and with and without sound: what is unknown has its known-bits at 0 and a
learned vector in place of the sound's.

With a lookahead k (``ModelConfig.lookahead``) the label of word i depends on words 0..i+k of its window (pieces, times,
confidences, speakers) and on the sound up to the end of word i+k. A fusion with an onset read-out (onset, both, gate)
waits for the onset of word i+1, at most 0.5 s from the end of word i: it knows that onset, and the sound up to it, also
where k is 0. So a word can be labelled as soon as that much has come, with the same result as in a whole window.

With ``ModelConfig.hearing`` "added" the heads see words and times alone, and what is heard moves their logits by a head
of its own, which knows the sound and what the heads say, only where something is heard: a model that learned to hear
afterwards (``learn_to_hear``) answers without sound exactly as it did before.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedConfig

from kaldi_punct.batch import Batch
from kaldi_punct.config import ModelConfig
from kaldi_punct.errors import ConfigError
from kaldi_punct.features import FEATURE_DIMS
from kaldi_punct.models.acoustic import AcousticEncoder
from kaldi_punct.models.baselines import RecurrentConfig, RecurrentEncoder
from kaldi_punct.models.causal import heard_until, past_timing
from kaldi_punct.models.fusion import FRAMES_A_STATE, Fusion, Heard, make_fusion
from kaldi_punct.models.lexical import LexicalEncoder
from kaldi_punct.timing import N_TIMING
from kaldi_punct.types import Case

ACOUSTIC_KEYS = (  # of ModelConfig
    "acoustic",
    "speech",
    "speech_layer",
    "sample_rate_hz",
    "conv_kernel",
    "lstm_dim",
    "fusion",
)


class Inputs(NamedTuple):
    """A Batch on the model's device; shapes as there."""

    piece_ids: Tensor
    piece_mask: Tensor
    piece_words: Tensor
    first_pieces: Tensor
    last_pieces: Tensor
    timing: Tensor
    frames: Tensor | None
    frame_lens: Tensor
    last_frames: Tensor
    onset_frames: Tensor


class Logits(NamedTuple):
    """Before softmax: marks (B, W, C) and cases (B, W, 4)."""

    marks: Tensor
    cases: Tensor


class Muse(nn.Module):
    """The model; complete after construction, weights random until they are loaded."""

    def __init__(
        self, config: ModelConfig, encoder_config: PreTrainedConfig | RecurrentConfig, n_features: int | None = None
    ) -> None:
        """Builds the model.

        Args:
            config: its architecture.
            encoder_config: of what reads the words.
            n_features: of a frame that it hears; None for those of ``config.acoustic`` where that tells.
        """
        super().__init__()
        self.config = config
        self.lexical = make_lexical(config, encoder_config)
        width = self.lexical.width
        # A one-directional LSTM looks ahead by being read later; a transformer by its mask.
        self._read_later = (config.lookahead or 0) if config.lexical == "lstm" else 0
        if self._read_later:
            width *= 2
        self.timing: nn.Sequential | None = None
        self.timing_to_pieces: nn.Linear | None = None
        if config.timing:
            self.timing = nn.Sequential(
                nn.Linear(N_TIMING, config.timing_dim),
                nn.GELU(),
                nn.Linear(config.timing_dim, config.timing_dim),
                nn.GELU(),
            )
            # Begins at zero, so that training starts from the pretrained encoder as it is.
            self.timing_to_pieces = nn.Linear(config.timing_dim, self.lexical.input_width, bias=False)
            nn.init.zeros_(self.timing_to_pieces.weight)
        self.acoustic: AcousticEncoder | None = None
        self.fusion: Fusion | None = None
        self.sound_head: AddedHead | None = None
        self.manner_head: AddedHead | None = None
        fused = width + (config.timing_dim if config.timing else 0)
        if config.acoustic != "none":
            if n_features is None:
                n_features = FEATURE_DIMS[config.acoustic]
            stride = FRAMES_A_STATE[config.fusion]
            self.acoustic = AcousticEncoder(n_features, config.lstm_dim, config.conv_kernel, stride)
            self.fusion = make_fusion(config.fusion, width, config.lstm_dim)
            if config.hearing == "added":
                self.sound_head = AddedHead(self.fusion.width + len(config.marks), config.lstm_dim, len(config.marks))
                self.manner_head = AddedHead(fused, config.lstm_dim, len(config.marks)).requires_grad_(False)
            else:
                fused += self.fusion.width
        self.learns_to_hear = False  # while all else is frozen
        self.dropout = nn.Dropout(config.dropout)
        self.mark_head = nn.Linear(fused, len(config.marks))
        self.case_head = nn.Linear(fused, len(Case))

    def forward(self, inputs: Inputs) -> Logits:
        """Logits of each word's mark and case."""
        added, timing = self._embed_timing(inputs)
        pieces = self.lexical(inputs.piece_ids, inputs.piece_mask, inputs.piece_words, added)  # (B, P, D)
        words = self._read_out(pieces, inputs)  # (B, W, D)
        if self._read_later:
            words = torch.cat([words, words_later(words, inputs.piece_words, self._read_later)], dim=-1)
        parts = [words] if timing is None else [words, timing]
        heard = self._hear(inputs)
        sound = None if self.fusion is None else self.fusion(words, heard)  # (B, W, S)
        if sound is not None and self.sound_head is None:
            parts.append(sound)
        fused = self.dropout(torch.cat(parts, dim=-1))
        logits = Logits(self.mark_head(fused), self.case_head(fused))
        if self.fusion is None or self.sound_head is None or sound is None or (heard is None and not self.training):
            return logits
        moved = self.sound_head(torch.cat([self.dropout(sound), logits.marks.softmax(-1)], dim=-1))
        # In training a batch that hears nothing still has gradients, of zero.
        hears = (
            self.fusion.hears(heard) if heard is not None else torch.zeros_like(moved.marks[..., :1], dtype=torch.bool)
        )
        logits = Logits(*(logit + torch.where(hears, by, 0.0) for logit, by in zip(logits, moved, strict=True)))
        if self.manner_head is None or not (self.training and self.learns_to_hear):
            return logits
        return Logits(*(logit + by for logit, by in zip(logits, self.manner_head(fused), strict=True)))

    def _embed_timing(self, inputs: Inputs) -> tuple[Tensor | None, Tensor | None]:
        """(what is added to the pieces (B, P, D), what goes to the heads (B, W, H)) of the timing features."""
        if self.timing is None or self.timing_to_pieces is None:
            return None, None
        if self.config.lookahead is None:
            to_pieces = to_heads = self.timing(inputs.timing)  # (B, W, H)
        else:
            # All later words see a word's pieces, and so may words before it; the heads see its features alone.
            to_pieces = to_heads = self.timing(past_timing(inputs.timing))
            if self.config.lookahead:
                to_heads = self.timing(inputs.timing)
        return spread_to_pieces(self.timing_to_pieces(to_pieces), inputs.piece_words), to_heads

    def _hear(self, inputs: Inputs) -> Heard | None:
        if self.acoustic is None or inputs.frames is None:
            return None
        until = None
        if self.config.lookahead is not None:
            until = self.acoustic.state_at(heard_until(inputs.last_frames, self.config.lookahead))
        return Heard(
            self.acoustic(inputs.frames),
            self.acoustic.n_states(inputs.frame_lens),
            self.acoustic.state_at(inputs.last_frames),
            self.acoustic.state_at(inputs.onset_frames),
            until,
        )

    def _read_out(self, pieces: Tensor, inputs: Inputs) -> Tensor:
        """One lexical vector a word: (B, P, D) -> (B, W, D)."""
        if self.config.read_out == "first":
            return pick_pieces(pieces, inputs.first_pieces)
        if self.config.read_out == "last":
            return pick_pieces(pieces, inputs.last_pieces)
        sums = torch.cat([torch.zeros_like(pieces[:, :1]), pieces.cumsum(1)], dim=1)  # (B, P + 1, D)
        n_pieces = (inputs.last_pieces - inputs.first_pieces + 1).unsqueeze(-1)
        return (pick_pieces(sums, inputs.last_pieces + 1) - pick_pieces(sums, inputs.first_pieces)) / n_pieces


class AddedHead(nn.Module):
    """What moves the logits of words: a layer of its own, which says nothing before it is trained."""

    def __init__(self, width: int, hidden: int, n_marks: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, hidden)
        self.marks = nn.Linear(hidden, n_marks)
        self.cases = nn.Linear(hidden, len(Case))
        for head in (self.marks, self.cases):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)

    def forward(self, words: Tensor) -> Logits:
        """(B, W, width) of what is known of words -> what moves their logits."""
        hidden = F.gelu(self.hidden(words))
        return Logits(self.marks(hidden), self.cases(hidden))


def learn_to_hear(
    model: Muse,
    encoder_config: PreTrainedConfig | RecurrentConfig,
    config: ModelConfig,
    n_features: int | None = None,
) -> Muse:
    """A model that can hear, with a deaf one's weights; it gives the same answers until it is trained.

    Args:
        model: the deaf one.
        encoder_config: of its encoder.
        config: what it will hear, and how; its acoustic part counts, with ``hearing`` "added".
        n_features: of a frame, as ``Muse`` takes it.

    Raises:
        ConfigError: the model hears, and always did.
    """
    if model.config.acoustic != "none":
        raise ConfigError(
            "train.init: expected a model without ears (train.learn is 'sound'), or with those that it learned to hear "
            "by, got one that was trained with sound from the beginning (model.hearing 'fused')"
        )
    parts = {name: getattr(config, name) for name in ACOUSTIC_KEYS}
    hearing = Muse(dataclasses.replace(model.config, **parts, hearing="added"), encoder_config, n_features)
    hearing.load_state_dict({**hearing.state_dict(), **model.state_dict()})
    return hearing


def freeze_all_but_hearing(model: Muse) -> None:
    """No training changes what the model makes of words and times.

    Beside the ears a head learns how these recordings differ from what the model was trained on, as far as words and
    times tell it (their manner). It has a part in training alone: were it not there the ears would learn the manner
    too, and put it wherever there is sound.
    """
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.partition(".")[0] in ("acoustic", "fusion", "sound_head", "manner_head"))
    model.learns_to_hear = True


def make_lexical(
    config: ModelConfig, encoder_config: PreTrainedConfig | RecurrentConfig
) -> LexicalEncoder | RecurrentEncoder:
    """What reads the words, by ``ModelConfig.lexical``."""
    if isinstance(encoder_config, RecurrentConfig):
        return RecurrentEncoder(config, encoder_config)
    return LexicalEncoder(encoder_config, config.lookahead)


def words_later(words: Tensor, piece_words: Tensor, n_later: int) -> Tensor:
    """The vector of the word ``n_later`` words after each, or of a row's last: (B, W, D) -> (B, W, D)."""
    place = torch.arange(words.shape[1], device=words.device) + n_later
    last = piece_words.amax(1, keepdim=True).clamp(min=0)  # (B, 1)
    return words.gather(1, torch.minimum(place, last).unsqueeze(-1).expand(-1, -1, words.shape[-1]))


def pick_pieces(pieces: Tensor, index: Tensor) -> Tensor:
    """Vectors at given pieces: (B, P, D) and (B, W) -> (B, W, D)."""
    return pieces.gather(1, index.unsqueeze(-1).expand(-1, -1, pieces.shape[-1]))


def spread_to_pieces(words: Tensor, piece_words: Tensor) -> Tensor:
    """Each piece gets its word's vector, special and padding pieces zeros: (B, W, D) and (B, P) -> (B, P, D)."""
    index = piece_words.clamp(min=0).unsqueeze(-1).expand(-1, -1, words.shape[-1])
    spread = words.gather(1, index)
    return spread * (piece_words >= 0).unsqueeze(-1).to(spread.dtype)


def to_inputs(batch: Batch, device: torch.device) -> Inputs:
    """The tensors of a batch on a device."""

    def move(array: object) -> Tensor:
        return torch.as_tensor(array).to(device)

    return Inputs(
        move(batch.piece_ids),
        move(batch.piece_mask),
        move(batch.piece_words),
        move(batch.first_pieces),
        move(batch.last_pieces),
        move(batch.timing),
        None if batch.frames is None else move(batch.frames),
        move(batch.frame_lens),
        move(batch.last_frames),
        move(batch.onset_frames),
    )
