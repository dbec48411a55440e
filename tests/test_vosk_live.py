"""A real Kaldi decoder in front: Vosk decodes speech as it comes in, its results are read and punctuated."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kaldi_punct
from kaldi_punct.audio import read_audio
from kaldi_punct.formats.result import Result
from kaldi_punct.formats.vosk import read_vosk
from kaldi_punct.punctuator import Punctuator, punctuate_conversation
from kaldi_punct.types import Word

pytestmark = [pytest.mark.shared, pytest.mark.slow]

CHUNK_S = 0.2
N_ALTERNATIVES = 10


@dataclass(frozen=True)
class Decoded:
    """What Vosk said of one recording.

    Attributes:
        words: its messages with words, confidences and partial results.
        alternatives: the same with N-best lists.
        audio_s: how long the recording is.
    """

    words: Path
    alternatives: Path
    audio_s: float


def tiny_chain(shared: Path, directory: Path) -> tuple[Path, Path, int]:
    """Model, clip and how many chunks between partial results: chain TDNN-F, 16 kHz."""
    with tarfile.open(shared / "kaldi-model" / "tiny-chain-model.tgz") as archive:
        archive.extractall(directory, filter="data")
    return directory / "tiny-chain-model", shared / "kaldi-model" / "lj-audio" / "LJ001-0009.flac", 1


def tdnn_lstm(shared: Path, directory: Path) -> tuple[Path, Path, int]:
    """The same of a recipe's TDNN-LSTM, 8 kHz, its files linked to where Vosk looks for them."""
    s5 = shared / "recipe" / "s5"
    exp = s5 / "exp" / "chain" / "tdnn_lstm"
    places = {
        "conf/mfcc.conf": s5 / "conf" / "mfcc_hires.conf",
        "conf/model.conf": s5 / "conf" / "model.conf",
        "am/final.mdl": exp / "final.mdl",
        "graph/HCLG.fst": exp / "graph" / "HCLG.fst",
        "graph/words.txt": exp / "graph" / "words.txt",
        "graph/phones/word_boundary.int": exp / "graph" / "phones" / "word_boundary.int",
    }
    for name, target in places.items():
        link = directory / "model" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    # Its lattices are deep: aligning the words of every partial result would take longer than the speech.
    return directory / "model", shared / "data" / "games" / "audio" / "turns" / "bass-s1-b000_T-1-0001.ogg", 8


def decode(vosk: Any, model: Any, clip: Path, chunks_a_partial: int, out: Path, n_alternatives: int) -> float:
    """Feeds a clip in pieces of ``CHUNK_S``, writes the messages as they come; returns the clip's length."""
    with clip.open("rb") as stream:
        audio = read_audio(stream, name=str(clip))
    samples = (audio.samples * 32767).astype(np.int16)
    recognizer = vosk.KaldiRecognizer(model, audio.sample_rate_hz)
    recognizer.SetWords(True)
    if n_alternatives:
        recognizer.SetMaxAlternatives(n_alternatives)
    else:
        recognizer.SetPartialWords(True)
    step = int(CHUNK_S * audio.sample_rate_hz)
    with out.open("w", encoding="utf-8") as messages:
        for i, start in enumerate(range(0, len(samples), step)):
            if recognizer.AcceptWaveform(samples[start : start + step].tobytes()):
                messages.write(recognizer.Result())
            elif i % chunks_a_partial == 0:
                messages.write(recognizer.PartialResult())
        messages.write(recognizer.FinalResult())
    return audio.duration_s


@pytest.fixture(scope="module", params=[tiny_chain, tdnn_lstm], ids=lambda make: make.__name__)
def decoded(request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Decoded:
    vosk = pytest.importorskip("vosk", reason="vosk is not installed: pip install vosk==0.3.45")
    make: Callable[[Path, Path], tuple[Path, Path, int]] = request.param
    directory = tmp_path_factory.mktemp(make.__name__)
    try:
        place, clip, chunks_a_partial = make(shared, directory)
        clip.stat()
    except FileNotFoundError as e:
        pytest.skip(f"no {e.filename}: the decoder's models are not there")
    vosk.SetLogLevel(-1)
    model = vosk.Model(str(place))
    words, alternatives = directory / "words.json", directory / "alternatives.json"
    audio_s = decode(vosk, model, clip, chunks_a_partial, words, 0)
    decode(vosk, model, clip, chunks_a_partial, alternatives, N_ALTERNATIVES)
    return Decoded(words, alternatives, audio_s)


@pytest.fixture(scope="module")
def english() -> Punctuator:
    return kaldi_punct.load("en")


def results(path: Path, counts: Counter[str] | None = None) -> list[Result]:
    found = list(read_vosk(path, "call", counts))
    assert all(isinstance(r, Result) for r in found), found
    return [r for r in found if isinstance(r, Result)]


def finals(path: Path) -> list[Result]:
    return [r for r in results(path) if r.is_final]


def raw(path: Path) -> list[dict[str, Any]]:
    """The messages as json alone reads them."""
    text, at, out = path.read_text(encoding="utf-8"), 0, []
    while text[at:].strip():
        record, at = json.JSONDecoder().raw_decode(text, at + len(text[at:]) - len(text[at:].lstrip()))
        out.append(record)
    return out


def spoken(words: tuple[Word, ...]) -> str:
    return " ".join(w.word for w in words)


def test_words_are_vosks(decoded: Decoded) -> None:
    for path in (decoded.words, decoded.alternatives):
        messages = raw(path)
        counts: Counter[str] = Counter()
        found = results(path, counts)
        assert [r.is_final for r in found] == ["partial" not in m for m in messages]
        for result, message in zip(found, messages, strict=True):
            best = message["alternatives"][0] if "alternatives" in message else message
            assert spoken(result.utterance.words) == best.get("partial", best.get("text"))
        assert set(counts) == {"finals", "partials"}
        assert counts["partials"] > 1
        assert any(r.utterance.words for r in found if not r.is_final)
        assert sum(len(r.utterance.words) for r in found if r.is_final) > 5


def test_times_go_on_and_lie_in_the_audio(decoded: Decoded) -> None:
    for path in (decoded.words, decoded.alternatives):
        words = [w for r in finals(path) for w in r.utterance.words]
        starts = [w.start_s for w in words if w.start_s is not None]
        ends = [w.end_s for w in words if w.end_s is not None]
        assert len(starts) == len(ends) == len(words)
        assert starts == sorted(starts)
        assert ends == sorted(ends)
        assert starts[0] >= 0
        assert ends[-1] <= decoded.audio_s + 0.03  # a frame of the model
        assert len({r.utterance.rec_id for r in finals(path)}) == 1


def test_confidences_of_the_best_path(decoded: Decoded) -> None:
    found = [w.confidence for r in results(decoded.words) for w in r.utterance.words if r.is_final or w.start_s]
    assert all(c is not None and 0 <= c <= 1 for c in found)
    assert len(set(found)) > 1


def test_alternatives_weigh_what_confidences_say(decoded: Decoded) -> None:
    """A path's weight is a posterior: together they say of a word what Vosk's own confidence says of it."""
    lists = [r.hypotheses for r in finals(decoded.alternatives) if r.utterance.words]
    assert max(map(len, lists)) > 2
    for hypotheses in lists:
        weights = [h.posterior for h in hypotheses]
        if len(weights) > 1:
            assert sum(w or 0.0 for w in weights) == pytest.approx(1)
            assert weights == sorted(weights, key=lambda w: -(w or 0.0))
    differences = []
    for result, hypotheses in zip([r for r in finals(decoded.words) if r.utterance.words], lists, strict=True):
        for word in result.utterance.words:
            middle = (word.start_s or 0.0) + (word.duration_s or 0.0) / 2
            having = [
                h.posterior if len(hypotheses) > 1 else 1.0
                for h in hypotheses
                if any(w.word == word.word and (w.start_s or 0.0) <= middle <= (w.end_s or 0.0) for w in h.words)
            ]
            differences.append(abs(sum(p or 0.0 for p in having) - (word.confidence or 0.0)))
    print(f"weights and confidences differ by {np.mean(differences):.3f} on average")
    assert np.mean(differences) < 0.1


def test_finals_are_punctuated(decoded: Decoded, english: Punctuator) -> None:
    utterances = [r.utterance for r in finals(decoded.words)]
    answers = punctuate_conversation(english, utterances)
    assert [a.utt_id for a in answers] == [u.utt_id for u in utterances]
    written = [w for a in answers for w in a.words]
    assert [w.word for w in written] == [w for u in utterances for w in u.words]
    assert any(w.mark for w in written)
    assert all(a.used_times for a in answers)


def test_lists_are_fused(decoded: Decoded, english: Punctuator) -> None:
    for result in finals(decoded.alternatives):
        if not result.utterance.words:
            continue
        answer = english.fuse(result.hypotheses, utt_id=result.utterance.utt_id)
        assert tuple(w.word for w in answer.words) == result.utterance.words
        assert answer.n_hypotheses == len(result.hypotheses)
        assert any(w.mark for w in answer.words)
