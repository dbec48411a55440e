"""What a decoder says of one stretch of speech, at last or so far, and the streams that such results come in."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kaldi_punct.types import Hypothesis, Utterance

MAX_STEP_BACK_S = 0.1  # as times of a CTM may step back; more is another recording


@dataclass(frozen=True, slots=True)
class Result:
    """One result of a decoder.

    Attributes:
        where: the place that it was read from, ``path:line``.
        utterance: its words. Results of one recording (``rec_id``) are one conversation. What is not final has the
            key of the utterance that it will become.
        hypotheses: best first; the first has the utterance's words. Posteriors of an N-best list are weights within
            the list and sum to 1; a hypothesis that stands alone has none.
        is_final: the decoder will not change it any more.
    """

    where: str
    utterance: Utterance
    hypotheses: tuple[Hypothesis, ...]
    is_final: bool


class Session:
    """The results of a decoder in the order in which they come: which recording they belong to, and their keys.

    A decoder that begins with another recording starts its clock again.

    Args:
        rec_id: of the first recording; ``<rec_id>-2`` … follow.
        counts: takes what is met on the way, by what it is.

    Attributes:
        name: of the recording that is going on.
        n_finals: how many of its results are final.
    """

    def __init__(self, rec_id: str, counts: Counter[str]) -> None:
        self.name, self.n_finals = rec_id, 0
        self._rec_id, self._counts = rec_id, counts
        self._n_recordings = 1
        self._heard_s = 0.0
        self._words_so_far = 0  # of the last partial

    def restart(self, name: str | None = None) -> None:
        """What follows belongs to another recording.

        Args:
            name: its own; None if it has none.
        """
        self.close()
        self._n_recordings += 1
        self.name = name or f"{self._rec_id}-{self._n_recordings}"
        self.n_finals, self._heard_s = 0, 0.0

    def result(
        self,
        where: str,
        hypotheses: Sequence[Hypothesis],
        is_final: bool,
        start_s: float | None = None,
        end_s: float | None = None,
    ) -> Result:
        """The next result.

        Args:
            where: ``path:line``.
            hypotheses: best first, at least one.
            is_final: it will not change any more.
            start_s: where its stretch of the recording begins, seconds.
            end_s: where it ends.
        """
        words = hypotheses[0].words
        starts = (start_s, *(w.start_s for w in words))
        times = [t for t in (*starts, *(w.end_s for w in words), end_s) if t is not None]
        if times and times[0] < self._heard_s - MAX_STEP_BACK_S:
            self.restart()
        key = f"{self.name}-{self.n_finals + 1:04d}"
        utterance = Utterance(key, tuple(words), self.name, start_s=start_s, end_s=end_s)
        self._counts["finals" if is_final else "partials"] += 1
        self._words_so_far = 0 if is_final else len(words)
        if is_final:
            self.n_finals += 1
            self._heard_s = max([self._heard_s, *times])
        return Result(where, utterance, tuple(hypotheses), is_final)

    def close(self) -> None:
        """Nothing more comes of the recording; words that never became final are counted."""
        if self._words_so_far:
            self._counts["words that never became final"] += self._words_so_far
        self._words_so_far = 0


def weights(scores: Sequence[float]) -> list[float]:
    """Weights within an N-best list, summing to 1, from log likelihoods (graph and acoustic scores added)."""
    best = max(scores)
    likelihoods = [math.exp(s - best) for s in scores]
    total = sum(likelihoods)
    return [p / total for p in likelihoods]
