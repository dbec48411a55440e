"""Punctuator: words in, the same words out with marks and case; long texts, batches, context, N-best fusion."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import torch

from kaldi_punct import checkpoint as checkpoints
from kaldi_punct.batch import Example, batch_by_budget, collate
from kaldi_punct.casing import case_after
from kaldi_punct.frames import FrameKind
from kaldi_punct.hearing import SoundReader, hear, sound_reader
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.labels import FINAL_MARKS, is_word, write_case
from kaldi_punct.models.muse import to_inputs
from kaldi_punct.nbest import Array, posteriors
from kaldi_punct.plans import Plan, Probs, Strand, is_heard, merge
from kaldi_punct.types import Audio, Case, Hypothesis, Punctuated, PunctuatedWord, Sentence, Utterance, Word, to_words
from kaldi_punct.windows import Sound, build_track, cut_example, cut_windows

T = TypeVar("T")

BATCH_PIECES = 4096  # padded pieces of one forward pass
# More would not be seen: it fills the first window, and the words to answer go into the next one.
LEFT_CONTEXT_WORDS = 64


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a model is, as clients are told."""

    name: str
    version: str
    language: str
    marks: tuple[str, ...]
    hears: bool
    uses_times: bool


class Punctuator:
    """A model ready to punctuate.

    >>> punctuator = kaldi_punct.load("en")
    >>> punctuator("so what do you think".split()).text
    'So what do you think?'

    Args:
        checkpoint: what ``checkpoint.load`` gives.
        device: "cpu", "cuda:0" …

    Attributes:
        info: what the model is.
        frame_kind: the frames that it hears; None for one that does not hear.
    """

    def __init__(self, checkpoint: checkpoints.Checkpoint, device: str = "cpu") -> None:
        self._model = checkpoint.model.eval().to(device)
        self._device = torch.device(device)
        self._config, self._window = checkpoint.config, checkpoint.window
        self._table = checkpoint.piece_table()
        self._lexicon = checkpoint.case_lexicon
        self._source = checkpoint.source
        self.frame_kind: FrameKind | None = None
        if self._source is not None:
            self._source.use(device)
            self.frame_kind = self._source.kind
        self._final_marks = [i for i, mark in enumerate(self._config.marks) if mark in FINAL_MARKS]
        self.info = ModelInfo(
            checkpoint.name,
            checkpoint.version,
            self._config.language,
            tuple(self._config.marks),
            self._config.acoustic != "none",
            self._config.timing,
        )

    def __call__(
        self,
        words: Sequence[str | Word],
        *,
        left_context: Sequence[str | Word] = (),
        audio: Audio | Sound | None = None,
        utt_id: str = "",
        punctuation: bool = True,
        capitalization: bool = True,
    ) -> Punctuated:
        """The words with marks and case: each input word once, in order.

        Args:
            words: of one utterance or a whole recording, any number.
            left_context: words just before these in the same conversation; seen, not answered.
            audio: what was said, on the words' clock, or the frames of it; used by a model that hears.
            utt_id: passed through.
            punctuation: False leaves all marks out.
            capitalization: False leaves the words as they came.
        """
        plan = self.plan(to_words(words), left_context=to_words(left_context), audio=audio)
        return self.finish(
            plan,
            infer_by_budget(self, plan.examples),
            utt_id=utt_id,
            punctuation=punctuation,
            capitalization=capitalization,
        )

    def fuse(
        self,
        hypotheses: Sequence[Hypothesis],
        *,
        acoustic_scale: float | None = None,
        left_context: Sequence[str | Word] = (),
        audio: Audio | Sound | None = None,
        utt_id: str = "",
        weigh_words: bool = False,
    ) -> Punctuated:
        """The best hypothesis with marks that all agree on, weighed by posteriors; arguments as ``plan_fused``."""
        plan = self.plan_fused(
            hypotheses,
            acoustic_scale=acoustic_scale,
            left_context=to_words(left_context),
            audio=audio,
            weigh_words=weigh_words,
        )
        return self.finish(plan, infer_by_budget(self, plan.examples), utt_id=utt_id)

    def stream(self, data_dir: DataDir, *, hear: bool = True) -> Iterator[Punctuated]:
        """The utterances of a data directory, conversation by conversation, lazily; heard where it has sound.

        Args:
            data_dir: its words; its sound if there is a ``wav.scp`` and the model hears.
            hear: False leaves the sound out.

        Raises:
            FormatError: a recording that cannot be read.
        """
        read_sound = self.sound_reader(data_dir) if hear else None
        for conversation in data_dir.conversations():
            sound = None if read_sound is None else read_sound(conversation)
            yield from punctuate_conversation(self, conversation.utterances, audio=sound)

    def sound_reader(self, data_dir: DataDir) -> SoundReader | None:
        """Reads what the model hears of a conversation (``hearing.sound_reader``); None where it does not hear."""
        return sound_reader(data_dir, self._source, by_times=self._config.hears_by_times)

    def plan(
        self, words: Sequence[Word], *, left_context: Sequence[Word] = (), audio: Audio | Sound | None = None
    ) -> Plan:
        """The windows of one word sequence; all of the work that needs no model."""
        sound = self._hear(audio)
        strand, examples = self._plan_strand(words, left_context, sound, [len(words)], [1.0])
        return self._plan([strand], examples)

    def plan_fused(
        self,
        hypotheses: Sequence[Hypothesis],
        *,
        acoustic_scale: float | None = None,
        left_context: Sequence[Word] = (),
        audio: Audio | Sound | None = None,
        weigh_words: bool = False,
    ) -> Plan:
        """The windows of all hypotheses of an N-best list, best first.

        Args:
            hypotheses: at least one.
            acoustic_scale: multiplies acoustic costs; needed where hypotheses bring costs and no posteriors.
            left_context: words just before these in the same conversation.
            audio: what was said.
            weigh_words: also weigh each word's part by its confidence, where it has one.
        """
        return self.plan_lists(
            [hypotheses],
            acoustic_scale=acoustic_scale,
            left_context=left_context,
            audio=audio,
            weigh_words=weigh_words,
        )

    def plan_lists(
        self,
        lists: Sequence[Sequence[Hypothesis]],
        *,
        acoustic_scale: float | None = None,
        left_context: Sequence[Word] = (),
        audio: Audio | Sound | None = None,
        weigh_words: bool = False,
    ) -> Plan:
        """The windows of the N-best lists of a conversation's utterances, in time order.

        The k-th hypotheses stand in each other's context; where a list is shorter, its best stands there for the others
        and has no part in the fusion.

        Args:
            lists: one an utterance, each as ``hypotheses`` of ``plan_fused``, as are the other arguments.
            acoustic_scale: as there.
            left_context: words just before the first utterance.
            audio: what was said.
            weigh_words: as there.
        """
        sound = self._hear(audio)
        weights = [posteriors(hypotheses, acoustic_scale) for hypotheses in lists]
        strands, examples = [], []
        for k in range(max(map(len, lists))):
            chosen = [hypotheses[k if k < len(hypotheses) else 0].words for hypotheses in lists]
            shares = [w[k] if k < len(w) else 0.0 for w in weights]
            words = [word for part in chosen for word in part]
            strand, more = self._plan_strand(words, left_context, sound, [len(part) for part in chosen], shares)
            strands.append(strand)
            examples.extend(more)
        return replace(self._plan(strands, examples), weigh_words=weigh_words)

    def infer(self, examples: Sequence[Example]) -> list[Probs]:
        """Probabilities of the words of each example, computed as one padded batch."""
        if not examples:
            return []
        with torch.inference_mode():
            logits = self._model(to_inputs(collate(examples), self._device))
            marks = logits.marks.float().softmax(-1).cpu().numpy()
            cases = logits.cases.float().softmax(-1).cpu().numpy()
        return [Probs(marks[b, : e.n_words], cases[b, : e.n_words]) for b, e in enumerate(examples)]

    def finish(
        self,
        plan: Plan,
        probs: Sequence[Probs],
        *,
        utt_id: str = "",
        punctuation: bool = True,
        capitalization: bool = True,
    ) -> Punctuated:
        """The answer of a plan whose examples have been inferred.

        Args:
            plan: from ``plan`` or ``plan_fused``.
            probs: one for each of its examples, in order.
            utt_id: passed through.
            punctuation: False leaves all marks out.
            capitalization: False leaves the words as they came.
        """
        marks, cases, lead = merge(plan, probs, len(self.info.marks))
        words = self._write(plan.strands[0], marks, cases, lead, punctuation, capitalization)
        return assemble(utt_id, words, plan)

    def load_hearing(self) -> None:
        """Loads the speech encoder that the model hears through, if there is one; else the first sound does.

        Raises:
            CheckpointError: it is not there, or another than the model was trained with.
        """
        if self._source is not None:
            self._source.load()

    def _hear(self, audio: Audio | Sound | None) -> Sound | None:
        if audio is None or self._source is None:
            return None
        return hear(audio, self._source, by_times=self._config.hears_by_times)

    def _plan_strand(
        self,
        words: Sequence[Word],
        left_context: Sequence[Word],
        sound: Sound | None,
        sizes: Sequence[int],
        weights: Sequence[float],
    ) -> tuple[Strand, list[Example]]:
        real = tuple(i for i, w in enumerate(words) if is_word(w.word))
        left = [w for w in left_context if is_word(w.word)][-LEFT_CONTEXT_WORDS:] if real else []
        track = build_track([*left, *(words[i] for i in real)], self._table, sound)
        windows = (
            tuple(cut_windows([len(p) for p in track.pieces], self._window.max_pieces, self._window.margin_words))
            if real
            else ()
        )
        # Windows that answer nothing but left context are not computed.
        windows = tuple(w for w in windows if w.last >= len(left))
        examples = [
            cut_example(track, w.start, w.stop, self._table, self._window.max_pieces, self._window.left_context_s)
            for w in windows
        ]
        return Strand(tuple(words), real, len(left), windows, tuple(sizes), tuple(weights)), examples

    def _plan(self, strands: Sequence[Strand], examples: Sequence[Example]) -> Plan:
        used_times = any(bool(e.timing[:, 6:10].any()) for e in examples)
        used_audio = any(is_heard(e, self._config.hears_by_times) for e in examples)
        return Plan(tuple(strands), tuple(examples), used_times, used_audio)

    def _write(
        self,
        strand: Strand,
        marks: Array,
        cases: Array,
        lead: Array | None,
        punctuation: bool,
        capitalization: bool,
    ) -> list[PunctuatedWord]:
        out = [PunctuatedWord(w, w.word, "", None, 1.0, 1.0) for w in strand.words]
        before = lead
        for k, i in enumerate(strand.real):
            word = strand.words[i]
            mark_index = int(marks[k].argmax())
            case_probs = cases[k] if before is None else case_after(cases[k], before, self._final_marks)
            case_index = int(case_probs.argmax())
            before = marks[k]
            mark = self.info.marks[mark_index] if punctuation else ""
            case = Case(case_index) if capitalization else None
            written = write_case(word.word, case, self._lexicon)
            out[i] = PunctuatedWord(
                word,
                attach(written, mark),
                mark,
                case,
                float(marks[k][mark_index]),
                float(case_probs[case_index]),
                tuple(marks[k].tolist()),
            )
        return out


def load(name: str | Path, device: str = "cpu") -> Punctuator:
    """A punctuator of a built-in model ("en"), a model directory, or "hub:ORG/NAME".

    Raises:
        CheckpointError: nothing of that name, or not a model of ours.
    """
    return Punctuator(checkpoints.load(name), device)


def punctuate_conversation(
    punctuator: Punctuator, utterances: Sequence[Utterance], *, audio: Audio | Sound | None = None
) -> list[Punctuated]:
    """The utterances of one conversation, in time order, each with its own words back.

    The model sees across the borders; a border forces no full stop.
    """
    words = [w for u in utterances for w in u.words]
    return list(split_answer(punctuator(words, audio=audio), utterances))


def split_answer(whole: Punctuated, utterances: Sequence[Utterance]) -> Iterator[Punctuated]:
    """The answer to a conversation's words, cut into its utterances."""
    taken = 0
    for utterance in utterances:
        part = whole.words[taken : taken + len(utterance.words)]
        taken += len(utterance.words)
        yield Punctuated(
            utterance.utt_id, part, find_sentences(part), whole.used_times, whole.used_audio, whole.n_hypotheses
        )


def infer_by_budget(
    punctuator: Punctuator, examples: Sequence[Example], batch_pieces: int = BATCH_PIECES
) -> list[Probs]:
    """Probabilities of any number of examples, batches of like lengths within a padded budget; order kept."""
    order = sorted(range(len(examples)), key=lambda i: examples[i].n_pieces)
    out: list[Probs | None] = [None] * len(examples)
    done = 0
    for group in batch_by_budget((examples[i] for i in order), batch_pieces):
        for i, p in zip(order[done : done + len(group)], punctuator.infer(group), strict=True):
            out[i] = p
        done += len(group)
    return [p for p in out if p is not None]


def infer_in_groups(
    punctuator: Punctuator, items: Iterable[tuple[T, Sequence[Example]]]
) -> Iterator[tuple[T, list[Probs]]]:
    """Each item with the probabilities of its examples; short ones share batches, order is kept.

    Args:
        punctuator: the model.
        items: anything, and its examples (none is fine); read ahead by a batch's worth.
    """
    waiting: list[tuple[T, Sequence[Example]]] = []
    n_pieces = 0

    def answer() -> Iterator[tuple[T, list[Probs]]]:
        probs = iter(infer_by_budget(punctuator, [e for _, examples in waiting for e in examples]))
        for item, examples in waiting:
            yield item, list(itertools.islice(probs, len(examples)))

    for item, examples in items:
        waiting.append((item, examples))
        n_pieces += sum(e.n_pieces for e in examples)
        if n_pieces >= BATCH_PIECES:
            yield from answer()
            waiting, n_pieces = [], 0
    yield from answer()


def attach(written: str, mark: str) -> str:
    """The word with its mark; one that brought the same mark along gets no second."""
    return written if mark and written.endswith(mark) else written + mark


def find_sentences(words: Sequence[PunctuatedWord]) -> tuple[Sentence, ...]:
    """Runs of words up to a final mark, or to the end."""
    out: list[Sentence] = []
    first = 0
    for i, word in enumerate(words):
        if (word.mark in FINAL_MARKS and word.mark) or i + 1 == len(words):
            part = words[first : i + 1]
            timed = [w.word for w in part if w.word.start_s is not None]
            out.append(
                Sentence(
                    " ".join(w.written for w in part),
                    first,
                    len(part),
                    timed[0].start_s if timed else None,
                    timed[-1].end_s if timed else None,
                    part[0].word.spk_id,
                )
            )
            first = i + 1
    return tuple(out)


def assemble(utt_id: str, words: Sequence[PunctuatedWord], plan: Plan) -> Punctuated:
    """The answer's record."""
    return Punctuated(utt_id, tuple(words), find_sentences(words), plan.used_times, plan.used_audio, len(plan.strands))
