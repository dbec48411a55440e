"""Training on what a decoder heard: the hypotheses of N-best lists beside a conversation's own words.

(Sunkara et al., 2020, section 4.5: marks carried over by edit distance, all of the list beside the reference.) A data
directory's lists lie in its folder ``nbest``, as ``kaldi-punct nbest`` writes them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kaldi_punct.config import TrainConfig
from kaldi_punct.errors import ConfigError, UtteranceError
from kaldi_punct.kaldi.data_dir import Conversation, DataDir
from kaldi_punct.kaldi.nbest_lists import NbestLists
from kaldi_punct.nbest import posteriors
from kaldi_punct.types import Hypothesis, Utterance, Word

log = logging.getLogger(__name__)

FOLDER = "nbest"  # of a data directory


@dataclass(frozen=True, slots=True)
class RankedConversation:
    """A conversation in the words of one rank of its utterances' N-best lists.

    Attributes:
        rank: from 1.
        conversation: the same utterances, with other words.
        weights: one an utterance: how much its words count in the loss. 0 where the list has no hypothesis of this
            rank, or one that was there before: its best one stands in its place, as context alone.
    """

    rank: int
    conversation: Conversation
    weights: tuple[float, ...]


HypothesisReader = Callable[[Conversation], Iterator[RankedConversation]]


class NbestReader:
    """Reads the hypotheses of a conversation.

    Word sequences that stand in a list twice, or are the conversation's own, count once.

    Attributes:
        n_without_list: utterances that the lists do not have.
        n_same: hypotheses that were left out for being there already.
        n_bad: utterances whose list is broken; each was reported.
    """

    def __init__(self, data_dir: DataDir, lists: NbestLists, options: TrainConfig) -> None:
        self._data_dir, self._lists, self._options = data_dir, lists, options
        self.n_without_list = self.n_same = self.n_bad = 0
        if options.nbest_weights == "posterior" and not lists.has_costs:
            raise ConfigError(
                f"train.nbest_weights: expected tables lm_cost and ac_cost in {lists.path} for 'posterior', got none; "
                "write the lists with kaldi-punct nbest, or set it to 'equal'"
            )

    def __call__(self, conversation: Conversation) -> Iterator[RankedConversation]:
        """One for each rank that brings something new."""
        lists = [self._read(utterance) for utterance in conversation.utterances]
        for rank in sorted({rank for found in lists for rank, (_, weight) in found.items() if weight > 0}):
            utterances, weights = [], []
            for utterance, found in zip(conversation.utterances, lists, strict=True):
                words, weight = found.get(rank, (None, 0.0))
                if weight <= 0 and found:
                    words = found[min(found)][0]
                utterances.append(utterance if words is None else replace(utterance, words=words))
                weights.append(weight)
            yield RankedConversation(rank, replace(conversation, utterances=tuple(utterances)), tuple(weights))

    def __str__(self) -> str:
        """What was left out."""
        return (
            f"{self.n_same} hypotheses were there already, {self.n_without_list} utterances have no list, "
            f"{self.n_bad} a broken one"
        )

    def _read(self, utterance: Utterance) -> dict[int, tuple[tuple[Word, ...], float]]:
        """Words and weight of an utterance's hypotheses by rank; weight 0 where the words were there before."""
        if utterance.utt_id not in self._lists:
            self.n_without_list += 1
            return {}
        try:
            ranked = self._lists.read(
                utterance.utt_id,
                self._options.nbest,
                start_s=utterance.start_s or 0.0,
                spk_id=self._speaker_of(utterance),
            )
        except UtteranceError as e:
            self.n_bad += 1
            log.error("%s", e)
            return {}
        return self._weigh(utterance, ranked)

    def _speaker_of(self, utterance: Utterance) -> str | None:
        speakers = self._data_dir.utt2spk
        return speakers.get(utterance.utt_id) or speakers.get(utterance.rec_id or "")

    def _weigh(
        self, utterance: Utterance, ranked: tuple[tuple[int, Hypothesis], ...]
    ) -> dict[int, tuple[tuple[Word, ...], float]]:
        if not ranked:
            return {}
        by_posterior = self._options.nbest_weights == "posterior"
        shares = (
            posteriors([h for _, h in ranked], self._options.nbest_acoustic_scale)
            if by_posterior
            else [1.0] * len(ranked)
        )
        own = _tokens(utterance.words)
        first: dict[tuple[str, ...], int] = {}
        out: dict[int, tuple[tuple[Word, ...], float]] = {}
        for (rank, hypothesis), share in zip(ranked, shares, strict=True):
            tokens = _tokens(hypothesis.words)
            before = first.setdefault(tokens, rank)
            if tokens == own or before != rank:
                self.n_same += 1
                out[rank] = (hypothesis.words, 0.0)
                if tokens != own and by_posterior:
                    out[before] = (out[before][0], out[before][1] + share)
            else:
                out[rank] = (hypothesis.words, share)
        return out


def nbest_reader(data_dir: DataDir, options: TrainConfig) -> NbestReader | None:
    """The reader of a training set's N-best lists; None if none are asked for, or the set has none."""
    if not options.nbest:
        return None
    if not (data_dir.path / FOLDER).is_dir():
        log.warning("%s: has no folder %s: trained on its own words alone", data_dir.path, FOLDER)
        return None
    return NbestReader(data_dir, NbestLists(data_dir.path / FOLDER), options)


def _tokens(words: tuple[Word, ...]) -> tuple[str, ...]:
    return tuple(w.word.lower() for w in words)
