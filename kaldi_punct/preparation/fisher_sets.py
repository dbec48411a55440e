"""Fisher English -> punctuated data directories train, dev and test, split by call (the paper, section 4)."""

from __future__ import annotations

import contextlib
import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kaldi_punct.errors import FormatError, KaldiPunctError
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.labels import is_word
from kaldi_punct.preparation.cutting import CutReference, cut_reference
from kaldi_punct.preparation.distribution import SetCounts, count_set
from kaldi_punct.preparation.fisher import (
    SIDES,
    Corpus,
    Oddities,
    TimedUtterance,
    find_corpus,
    read_original,
    read_transcript,
)
from kaldi_punct.preparation.subsets import split_calls
from kaldi_punct.preparation.writing import DataDirWriter, Report, Track, new_data_dir, untracked

log = logging.getLogger(__name__)

SETS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class FisherOptions:
    """How the sets are made.

    Attributes:
        min_words: utterances with fewer words are left out (the paper: six).
        min_agreement: the same of those with a lower share of words that the punctuated transcript has too, 0..1.
        dev_share, test_share: of the calls, 0..1; the rest is for training.
        seed: of the split.
        sph2pipe: the command that reads sphere files, for ``wav.scp``.
    """

    min_words: int = 6
    min_agreement: float = 0.5
    dev_share: float = 0.1
    test_share: float = 0.1
    seed: int = 1
    sph2pipe: str = "sph2pipe"


@dataclass
class _Tally:
    """What became of the utterances; logged, never silent."""

    n_kept: int = 0
    n_unclear: int = 0
    n_short: int = 0
    n_doubtful: int = 0
    n_turned: int = 0
    n_marks: int = 0
    n_marks_lost: int = 0
    odd: Oddities = field(default_factory=Oddities)

    def __str__(self) -> str:
        lost = 100 * self.n_marks_lost / max(self.n_marks, 1)
        return (
            f"{self.n_kept} utterances; left out: {self.n_unclear} unclear, {self.n_short} too short, "
            f"{self.n_doubtful} that their punctuated transcript does not fit; {self.n_marks_lost} of {self.n_marks} "
            f"marks found no word ({lost:.1f} %); {self.n_turned} calls have L and R the other way round"
        )


def prepare_fisher(
    folders: Sequence[Path],
    out: Path,
    options: FisherOptions,
    report: Report,
    *,
    resume: bool = False,
    track: Track = untracked,
) -> list[SetCounts]:
    """Writes the sets; returns what they hold. A set without calls is not made.

    Args:
        folders: where the discs are; speech may be missing, then there is no ``wav.scp``.
        out: the folder to make them in.
        options: how.
        report: takes calls and lines that cannot be used.
        resume: sets that are there are left as they are.
        track: shows how far it is.

    Raises:
        FormatError: these are no folders of Fisher, or no call has all that is needed.
    """
    corpus = find_corpus(folders)
    set_of = _split(corpus, options, report)
    done = [s for s in SETS if resume and (out / s).is_dir()]
    for name in done:
        log.info("%s: is there already, left as it is", out / name)
    todo = [s for s in SETS if s in set_of.values() and s not in done]
    tally = _Tally()
    writers: dict[str, DataDirWriter] = {}
    with contextlib.ExitStack() as stack:
        for name in todo:
            writers[name] = stack.enter_context(new_data_dir(out / name))
        for call in track([c for c in sorted(set_of) if set_of[c] in todo], "call"):
            try:
                _write_call(call, corpus, options, writers[set_of[call]], tally, report)
            except KaldiPunctError as e:
                report(e)
    if todo:
        log.info("%s", tally)
        tally.odd.tell()
    made = {s: w.counts for s, w in writers.items()}
    for name in (s for s in todo if made[s] is None):
        report(FormatError(f"{out / name}: expected utterances for it, got none that can be used; not made"))
    sets = [made[s] if s in made else count_set(DataDir(out / s)) for s in SETS if s in made or s in done]
    return [s for s in sets if s is not None]


def _split(corpus: Corpus, options: FisherOptions, report: Report) -> dict[str, str]:
    """The set of each call that can be used."""
    calls = [c for c in corpus.transcripts if c in corpus.originals]
    log.info(
        "%d calls, %d of them without a punctuated transcript (left out)",
        len(corpus.transcripts),
        len(corpus.transcripts) - len(calls),
    )
    if corpus.audio:
        for call in (c for c in calls if c not in corpus.audio):
            report(
                FormatError(f"{call}: expected its sound {call}.sph, got none; name the folder of its disc. Left out")
            )
        calls = [c for c in calls if c in corpus.audio]
    else:
        log.warning("no .sph files: the sets will have no wav.scp")
    if not calls:
        raise FormatError("expected calls with both transcripts (and sound, if any has it), got none; name all discs")
    return split_calls(calls, {"dev": options.dev_share, "test": options.test_share}, "train", options.seed)


def _write_call(
    call: str, corpus: Corpus, options: FisherOptions, writer: DataDirWriter, tally: _Tally, report: Report
) -> None:
    originals = read_original(corpus.originals[call], tally.odd)
    every = sorted(read_transcript(corpus.transcripts[call], report, tally.odd), key=lambda u: (u.start_s, u.end_s))
    sides = {side: [u for u in every if u.side == side] for side in SIDES}
    for channel, (side, done) in enumerate(_cut_sides(sides, originals, tally).items(), 1):
        texts = _texts(sides[side], done, options, tally)
        if not texts:
            continue
        rec_id = f"{call}-{side}"
        for utterance in sorted((u for u in sides[side] if u.utt_id in texts), key=lambda u: u.utt_id):
            utt_id = utterance.utt_id
            writer.write("segments", utt_id, f"{rec_id} {utterance.start_s:.2f} {utterance.end_s:.2f}")
            writer.write("text", utt_id, " ".join(utterance.words))
            writer.write("text_punct", utt_id, texts[utt_id])
            writer.write("utt2spk", utt_id, rec_id)
        writer.write("spk2utt", rec_id, " ".join(sorted(texts)))
        writer.write("reco2file_and_channel", rec_id, f"{call} {side}")
        if call in corpus.audio:
            path = shlex.quote(str(corpus.audio[call].resolve()))
            writer.write("wav.scp", rec_id, f"{options.sph2pipe} -f wav -p -c {channel} {path} |")


def _cut_sides(
    sides: Mapping[str, Sequence[TimedUtterance]], originals: Mapping[str, str], tally: _Tally
) -> dict[str, CutReference]:
    """The original of each side on its utterances.

    All of them are aligned, those that will be left out too: their words are in the original, and must not go
    elsewhere. Where ``L`` does not fit side A and fits B, the original has its sides the other way round.
    """
    words = {side: [u.words for u in utterances] for side, utterances in sides.items()}
    n_words = sum(len(w) for utterances in words.values() for w in utterances)
    done = {side: cut_reference(originals[side], words[side]) for side in SIDES}
    if 2 * _n_equal(done) < n_words:
        other = {side: cut_reference(originals[turned], words[side]) for side, turned in zip(SIDES, "BA", strict=True)}
        if 2 * _n_equal(other) >= n_words:
            tally.n_turned += 1
            done = other
    return done


def _n_equal(done: Mapping[str, CutReference]) -> int:
    return sum(d.n_equal for d in done.values())


def _texts(
    utterances: Sequence[TimedUtterance], done: CutReference, options: FisherOptions, tally: _Tally
) -> dict[str, str]:
    """Punctuated text of the utterances of one side that can be used."""
    tally.n_marks += done.n_marks
    tally.n_marks_lost += done.n_marks_lost
    texts: dict[str, str] = {}
    for utterance, cut in zip(utterances, done.cuts, strict=True):
        if utterance.is_unclear:
            tally.n_unclear += 1
        elif sum(map(is_word, utterance.words)) < options.min_words:
            tally.n_short += 1
        elif cut.agreement < options.min_agreement:
            tally.n_doubtful += 1
        else:
            tally.n_kept += 1
            texts[utterance.utt_id] = cut.text
    return texts
