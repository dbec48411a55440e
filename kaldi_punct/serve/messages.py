"""Messages of the proto <-> records of kaldi_punct, for both ends.

What comes in from the wire is checked here, and refused with the dotted name of the field at fault.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from kaldi_punct.audio import from_linear16, read_audio
from kaldi_punct.errors import FormatError, ServeError
from kaldi_punct.types import Audio, Case, Hypothesis, Punctuated, PunctuatedWord, Sentence, Word
from kaldi_punct.v1 import punctuation_pb2 as pb

MAX_STEP_BACK_S = 0.1  # times that step back further than this are an error of the utterance
MAX_AUDIO_S = 4 * 3600.0  # a small FLAC file can hold days of silence

_BLANKS = re.compile(r"[ \t\n\r\f\v]+")  # what Kaldi splits on; a no-break space belongs to its word


def split_text(text: str) -> tuple[Word, ...]:
    """Words of a text, separated by ASCII blanks."""
    return tuple(Word(token) for token in _BLANKS.split(text) if token)


def words_from_proto(words: Sequence[pb.Word], field: str, *, check_order: bool = True) -> tuple[Word, ...]:
    """Words as they came in.

    Args:
        words: of one request.
        field: their dotted name, for the error.
        check_order: refuse times that step back by more than 0.1 s.

    Raises:
        ServeError: a blank in a word, one time without the other, a time, duration or confidence out of range, or
            times that step back.
    """
    records = tuple(_word_from_proto(word, f"{field}[{i}]") for i, word in enumerate(words))
    latest_s = -math.inf
    for i, record in enumerate(records):
        if record.start_s is None or not check_order:
            continue
        if record.start_s < latest_s - MAX_STEP_BACK_S - 1e-9:
            raise refusal(f"{field}[{i}].start_s", f"times that step back by at most {MAX_STEP_BACK_S} s",
                          f"{record.start_s:g} after {latest_s:g}", "send the words in order of time")  # fmt: skip
        latest_s = max(latest_s, record.start_s)
    return records


def hypotheses_from_proto(nbest: pb.NBest) -> tuple[Hypothesis, ...]:
    """Hypotheses as they came in, best first.

    Raises:
        ServeError: no hypotheses; costs that are incomplete, mixed or out of range; or a word that
            ``words_from_proto`` refuses.
    """
    if not nbest.hypotheses:
        raise refusal("nbest.hypotheses", "at least one hypothesis", "none", "send a transcript without words")
    hyps = []
    for i, hyp in enumerate(nbest.hypotheses):
        field = f"nbest.hypotheses[{i}]"
        for name, other in (("graph_cost", "acoustic_cost"), ("acoustic_cost", "graph_cost")):
            if hyp.HasField(name) and not hyp.HasField(other):
                raise refusal(f"{field}.{other}", "both costs or neither", f"{name} alone", f"send {other} too")
        if _weights(hyp) != _weights(nbest.hypotheses[0]):
            raise refusal(field, f"{_weights(nbest.hypotheses[0])} as in hypotheses[0]", _weights(hyp),
                          "give every hypothesis both costs, or a posterior, or nothing")  # fmt: skip
        _check_costs(hyp, field)
        hyps.append(
            Hypothesis(
                words_from_proto(hyp.words, f"{field}.words"),
                hyp.graph_cost if hyp.HasField("graph_cost") else None,
                hyp.acoustic_cost if hyp.HasField("acoustic_cost") else None,
                hyp.posterior if hyp.HasField("posterior") else None,
            )
        )
    if hyps[0].posterior is not None and not any(h.posterior for h in hyps):
        raise refusal("nbest.hypotheses[0].posterior", "posteriors of which one is above 0", "only 0", "leave them out")
    return tuple(hyps)


def audio_from_proto(message: pb.Audio) -> Audio:
    """The sound of a request.

    Raises:
        ServeError: unknown encoding, missing sample rate, or bytes that do not decode.
    """
    check_finite(message.start_s, "audio.start_s")
    if message.encoding not in (pb.Audio.ENCODING_LINEAR16, pb.Audio.ENCODING_FILE):
        raise refusal("audio.encoding", "ENCODING_LINEAR16 or ENCODING_FILE", _encoding_name(message.encoding),
                      "say how the bytes are to be read")  # fmt: skip
    rate_hz = message.sample_rate_hz
    if message.encoding == pb.Audio.ENCODING_LINEAR16 and rate_hz <= 0:
        raise refusal("audio.sample_rate_hz", "samples a second above 0 for ENCODING_LINEAR16", str(rate_hz),
                      "give the rate the sound was recorded at")  # fmt: skip
    try:
        if message.encoding == pb.Audio.ENCODING_LINEAR16:
            return from_linear16(message.data, rate_hz, start_s=message.start_s, name="audio.data")
        audio = read_audio(message.data, start_s=message.start_s, name="audio.data", max_duration_s=MAX_AUDIO_S)
    except FormatError as e:
        raise ServeError(str(e), "audio.data") from e
    if rate_hz not in (0, audio.sample_rate_hz):
        raise refusal("audio.sample_rate_hz", f"the file's own {audio.sample_rate_hz}", str(rate_hz),
                      "leave it out for ENCODING_FILE")  # fmt: skip
    return audio


def check_finite(value: float, field: str, *, minimum: float = -math.inf, maximum: float = math.inf) -> None:
    """Raises ServeError unless ``value`` is a number from ``minimum`` to ``maximum``."""
    if math.isfinite(value) and minimum <= value <= maximum:
        return
    expected = "a finite number"
    if math.isfinite(minimum):
        expected = f"a number of at least {minimum:g}"
    if math.isfinite(maximum):
        expected = f"a number from {minimum:g} to {maximum:g}"
    raise refusal(field, expected, f"{value:g}", "leave it out where it is unknown")


def refusal(field: str, expected: str, got: str, fix: str) -> ServeError:
    """The error for a field at fault; ``field: expected …, got …; how to fix``."""
    return ServeError(f"{field}: expected {expected}, got {got}; {fix}", field)


def words_to_proto(words: Iterable[Word]) -> list[pb.Word]:
    """Words for the wire; what is unknown stays unset."""
    return [
        pb.Word(word=w.word, start_s=w.start_s, duration_s=w.duration_s, confidence=w.confidence, spk_id=w.spk_id or "")
        for w in words
    ]


def hypotheses_to_proto(hyps: Sequence[Hypothesis]) -> list[pb.Hypothesis]:
    """Hypotheses for the wire, weighed as offline: by posteriors if all have them, else by costs, else alike."""
    out = [pb.Hypothesis(words=words_to_proto(h.words)) for h in hyps]
    if all(h.posterior is not None for h in hyps):
        for message, hyp in zip(out, hyps, strict=True):
            message.posterior = hyp.posterior or 0.0
    elif all(h.graph_cost is not None and h.acoustic_cost is not None for h in hyps):
        for message, hyp in zip(out, hyps, strict=True):
            message.graph_cost = hyp.graph_cost or 0.0
            message.acoustic_cost = hyp.acoustic_cost or 0.0
    return out


def punctuated_to_proto(out: Punctuated, *, label_probabilities: bool) -> pb.PunctuateResponse:
    """An answer for the wire, without what the server adds to ``info``."""
    return pb.PunctuateResponse(
        utt_id=out.utt_id,
        text=out.text,
        words=[
            pb.PunctuatedWord(
                word=words_to_proto([w.word])[0],
                written=w.written,
                mark=w.mark,
                case=pb.CASE_UNSPECIFIED if w.case is None else pb.CASE_LOWER + int(w.case),  # type: ignore[arg-type]
                mark_probability=w.mark_prob,
                case_probability=w.case_prob,
                label_probabilities=w.label_probs if label_probabilities else (),
            )
            for w in out.words
        ],
        sentences=[
            pb.Sentence(text=s.text, first_word=s.first_word, n_words=s.n_words, start_s=s.start_s, end_s=s.end_s,
                        spk_id=s.spk_id or "")
            for s in out.sentences
        ],
        info=pb.ResponseInfo(used_times=out.used_times, used_audio=out.used_audio, n_hypotheses=out.n_hypotheses),
    )  # fmt: skip


def punctuated_from_proto(message: pb.PunctuateResponse) -> Punctuated:
    """A server's answer as a record."""
    words = tuple(
        PunctuatedWord(
            _record(w.word),
            w.written,
            w.mark,
            None if w.case == pb.CASE_UNSPECIFIED else Case(w.case - pb.CASE_LOWER),
            w.mark_probability,
            w.case_probability,
            tuple(w.label_probabilities),
        )
        for w in message.words
    )
    sentences = tuple(
        Sentence(
            s.text,
            s.first_word,
            s.n_words,
            s.start_s if s.HasField("start_s") else None,
            s.end_s if s.HasField("end_s") else None,
            s.spk_id or None,
        )
        for s in message.sentences
    )
    info = message.info
    return Punctuated(message.utt_id, words, sentences, info.used_times, info.used_audio, info.n_hypotheses)


def _word_from_proto(word: pb.Word, field: str) -> Word:
    if not word.word or _BLANKS.search(word.word):
        raise refusal(f"{field}.word", "one token without blanks", repr(word.word[:80]), "send one Word for each token")
    if word.HasField("start_s") != word.HasField("duration_s"):
        there, missing = ("start_s", "duration_s") if word.HasField("start_s") else ("duration_s", "start_s")
        raise refusal(f"{field}.{missing}", "both times or neither", f"{there} alone", f"send {missing} too")
    check_finite(word.start_s, f"{field}.start_s")
    check_finite(word.duration_s, f"{field}.duration_s", minimum=0.0)
    check_finite(word.confidence, f"{field}.confidence", minimum=0.0, maximum=1.0)
    return _record(word)


def _record(word: pb.Word) -> Word:
    return Word(
        word.word,
        word.start_s if word.HasField("start_s") else None,
        word.duration_s if word.HasField("duration_s") else None,
        word.confidence if word.HasField("confidence") else None,
        word.spk_id or None,
    )


def _weights(hyp: pb.Hypothesis) -> str:
    kinds = (["costs"] if hyp.HasField("graph_cost") else []) + (["a posterior"] if hyp.HasField("posterior") else [])
    return " and ".join(kinds) or "neither costs nor a posterior"


def _check_costs(hyp: pb.Hypothesis, field: str) -> None:
    if hyp.HasField("graph_cost") and hyp.HasField("posterior"):
        raise refusal(f"{field}.posterior", "costs or a posterior", "both", "leave one out")
    check_finite(hyp.graph_cost, f"{field}.graph_cost")
    check_finite(hyp.acoustic_cost, f"{field}.acoustic_cost")
    check_finite(hyp.posterior, f"{field}.posterior", minimum=0.0, maximum=1.0)


def _encoding_name(encoding: int) -> str:
    return pb.Audio.Encoding.Name(encoding) if encoding in pb.Audio.Encoding.values() else str(encoding)
