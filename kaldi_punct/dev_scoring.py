"""Scores of a model on labelled conversations, shared out among processes."""

from __future__ import annotations

from collections.abc import Sequence

from accelerate.utils import gather_object

from kaldi_punct.batch import Example, PieceTable
from kaldi_punct.checkpoint import Checkpoint
from kaldi_punct.config import DataConfig
from kaldi_punct.dataset import LabelledConversation
from kaldi_punct.labels import LabelSet
from kaldi_punct.plans import Probs
from kaldi_punct.punctuator import Punctuator, infer_in_groups
from kaldi_punct.scoring import Score, score_marks
from kaldi_punct.windows import Window, cut_example, cut_windows

Classes = tuple[list[int], list[int]]


def score_conversations(
    punctuator: Punctuator,
    checkpoint: Checkpoint,
    conversations: Sequence[LabelledConversation],
    labels: LabelSet,
    process: int = 0,
    n_processes: int = 1,
) -> Score:
    """Marks and case of labelled conversations against their references, both sides of context seen.

    Args:
        punctuator: answers.
        checkpoint: of the punctuator.
        conversations: all of them, the same in every process.
        labels: of the marks.
        process: which of ``n_processes`` this is; each answers every n-th conversation, all get the whole score.
        n_processes: how many call this together.
    """
    table, window = checkpoint.piece_table(), checkpoint.window
    share = range(process, len(conversations), n_processes)
    windows = ((i, cut(conversations[i], table, window)) for i in share)
    items = (((i, spans), examples) for i, (spans, examples) in windows)
    mine = [(i, join_classes(spans, probs)) for (i, spans), probs in infer_in_groups(punctuator, items)]
    answers: dict[int, Classes] = dict(mine if n_processes == 1 else gather_object(mine))
    reference_marks: list[str | None] = []
    hyp_marks: list[str] = []
    reference_cases: list[int | None] = []
    hyp_cases: list[int] = []
    for i, conversation in enumerate(conversations):
        marks, cases = answers[i]
        hyp_marks.extend(labels.marks[m] for m in marks)
        hyp_cases.extend(cases)
        reference_marks.extend(w.mark for w in conversation.labels)
        reference_cases.extend(w.case for w in conversation.labels)
    return score_marks(reference_marks, hyp_marks, reference_cases, hyp_cases, labels=labels)


def cut(
    conversation: LabelledConversation, table: PieceTable, window: DataConfig
) -> tuple[list[Window], list[Example]]:
    """The windows of a conversation, and what the model is to see of each."""
    track = conversation.track
    windows = cut_windows([len(p) for p in track.pieces], window.max_pieces, window.margin_words)
    return windows, [
        cut_example(track, w.start, w.stop, table, window.max_pieces, window.left_context_s) for w in windows
    ]


def join_classes(windows: Sequence[Window], probs: Sequence[Probs]) -> Classes:
    """(mark, case) class of each word of a conversation."""
    marks: list[int] = []
    cases: list[int] = []
    for w, p in zip(windows, probs, strict=True):
        part = slice(w.first - w.start, w.last - w.start)
        marks.extend(p.marks[part].argmax(1).tolist())
        cases.extend(p.cases[part].argmax(1).tolist())
    return marks, cases
