"""A reference of a whole recording, cut onto its utterances by alignment (the paper, section 4: "by aligning them")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kaldi_punct.labels import LabelledWord, is_word, join, split
from kaldi_punct.projection import project


@dataclass(frozen=True, slots=True)
class Cut:
    """What a reference says about one utterance.

    Attributes:
        text: the utterance's words with the reference's marks and case, for ``text_punct``.
        agreement: the share of its words (non-words apart) that equal their reference word, 0..1; 0 without words.
    """

    text: str
    agreement: float


@dataclass(frozen=True, slots=True)
class CutReference:
    """A reference on utterances.

    Attributes:
        cuts: one for each utterance.
        n_marks: marks that the reference has.
        n_marks_lost: those of them that found no free word.
        n_equal: words of the utterances that equal their reference word.
    """

    cuts: tuple[Cut, ...]
    n_marks: int
    n_marks_lost: int
    n_equal: int


def cut_reference(reference: str, utterances: Sequence[Sequence[str]]) -> CutReference:
    """The reference of a recording on the words of its utterances.

    Args:
        reference: punctuated text of the whole recording.
        utterances: their words, in time order.
    """
    ref = split(reference)
    words = [w for words in utterances for w in words]
    projection = project(ref, words)
    equal = {j for r, j in zip(ref, projection.slots, strict=True) if j is not None and _key(r.word) == _key(words[j])}
    cuts: list[Cut] = []
    start = 0
    for own in utterances:
        stop = start + len(own)
        real = [j for j in range(start, stop) if is_word(words[j])]
        agreement = sum(j in equal for j in real) / len(real) if real else 0.0
        cuts.append(Cut(to_text(projection.words[start:stop]), agreement))
        start = stop
    return CutReference(tuple(cuts), projection.n_marks, projection.n_marks_lost, projection.n_equal)


def to_text(words: Sequence[LabelledWord]) -> str:
    """Text that ``labels.split`` reads with the same marks.

    Where the last dot of a spelled word ("t._v.") would be read as a full stop that nobody wrote, it is left out.
    """
    text = join(words)
    read = split(text)
    if len(read) != len(words):
        return text
    wrong = [i for i, (w, r) in enumerate(zip(words, read, strict=True)) if r.mark and not w.mark]
    if not wrong:
        return text
    out = list(words)
    for i in wrong:
        out[i] = replace(out[i], written=(out[i].written or out[i].word).rstrip("."))
    return join(out)


def _key(word: str) -> str:
    return word.casefold().replace("’", "'")
