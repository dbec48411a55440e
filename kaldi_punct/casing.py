"""Case and marks made to agree."""

from __future__ import annotations

from collections.abc import Sequence

from kaldi_punct.nbest import Array
from kaldi_punct.types import Case


def case_after(case_probs: Array, marks_before: Array, final_marks: Sequence[int]) -> Array:
    """Case probabilities of a word, given the mark that was chosen before it.

    The case head does not know that choice: it spreads its probability over a sentence's start, where the word is never
    lower case, and its middle. Here the two parts agree on one of them.

    Args:
        case_probs: (4,) of the word, in the order of ``Case``.
        marks_before: (C,) probabilities of the mark before it.
        final_marks: which of the C marks end a sentence.

    Returns:
        (4,), of the same sum.
    """
    out: Array = case_probs.copy()
    if int(marks_before.argmax()) in final_marks:
        out[Case.CAPITALIZED] += out[Case.LOWER]
        out[Case.LOWER] = 0.0
        return out
    middle = max(1.0 - float(marks_before[list(final_marks)].sum()), 1e-6)
    lower = min(float(out[Case.LOWER]) / middle, float(out[Case.LOWER] + out[Case.CAPITALIZED]))
    out[Case.CAPITALIZED] -= lower - out[Case.LOWER]
    out[Case.LOWER] = lower
    return out
