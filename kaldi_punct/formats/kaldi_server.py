"""Results of kaldi-gstreamer-server: JSON objects one after the other, as its websocket or its HTTP port send them.

``{"status": 0, "segment": 3, "id": …, "segment-start": 12.4, "result": {"final": true, "hypotheses": [{"transcript",
"likelihood", "confidence", "word-alignment": [{"word", "start", "length", "confidence"}]}]}}``. HTTP answers
``{"status": 0, "hypotheses": [{"utterance"}], "id": …}``.

Facts (gstkaldinnet2onlinedecoder.cc, worker.py): times of ``word-alignment`` count from ``segment-start``;
``likelihood`` is the negated cost of the path, graph and scaled acoustic cost added, so its softmax over the list gives
posteriors; ``confidence`` of a hypothesis comes from a post-processor (the sample writes 1e10 for a single one) and
weighs only where there is no likelihood. A post-processor may have changed ``transcript``: the decoder's own words are
those of ``word-alignment``, else of ``original-transcript``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kaldi_punct.errors import FormatError
from kaldi_punct.formats import fields
from kaldi_punct.formats.messages import Message, read_messages
from kaldi_punct.formats.result import Result, Session, weights
from kaldi_punct.kaldi.streams import RxFilename, split_fields
from kaldi_punct.types import Hypothesis, Word

# common.py of the server
_STATUS = {
    -1: "end of stream",
    1: "no speech",
    2: "aborted",
    3: "no audio captured",
    4: "network error",
    5: "not allowed",
    6: "service not allowed",
    7: "bad grammar",
    8: "language not supported",
    9: "no decoder is free",
}


def read_kaldi_server(
    rx: RxFilename, rec_id: str, counts: Counter[str] | None = None
) -> Iterator[Result | FormatError]:
    """The results of a stream, and in its place what is none or says that there is none.

    Args:
        rx: what to read.
        rec_id: the recording where messages have no ``id``; another one begins where ``segment`` or the clock does.
        counts: takes how many finals, partials and messages of other kinds there were, texts that differ from their
            words, and words that never became final.

    Raises:
        FormatError: a broken stream.
    """
    counts = Counter() if counts is None else counts
    server = _Server(Session(rec_id, counts), counts)
    for message in read_messages(rx):
        try:
            result = message if isinstance(message, FormatError) else server.take(message)
        except FormatError as e:
            result = e
        if result is not None:
            yield result
    server.session.close()


class _Server:
    """Which request and segment the messages are at."""

    def __init__(self, session: Session, counts: Counter[str]) -> None:
        self.session, self._counts = session, counts
        self._request: str | None = None
        self._segment = -1.0  # the last that is final

    def take(self, message: Message) -> Result | None:
        """The result of a message; None if it is about something else."""
        where, record = message.where, message.record
        _check_status(where, record)
        request = fields.token(where, record, "id")
        if "hypotheses" in record:
            hypotheses = _to_hypotheses(where, record, "utterance", 0.0, self._counts)
            self._begin(request, 0.0, is_final=True)
            return self.session.result(where, hypotheses, is_final=True)
        result = record.get("result")
        if result is None:
            self._counts["messages without a result"] += 1
            return None
        if not isinstance(result, dict):
            raise FormatError(f"{where}: expected an object 'result', got {fields.kind(result)}; put it in {{ }}")
        is_final = result.get("final")
        if not isinstance(is_final, bool):
            raise FormatError(
                f"{where}: expected 'final' to be true or false, got {fields.kind(is_final)}; "
                "say whether the result will still change"
            )
        start_s, length_s, segment = (
            fields.number(where, record, field) for field in ("segment-start", "segment-length", "segment")
        )
        hypotheses = _to_hypotheses(f"{where}: result", result, "transcript", start_s or 0.0, self._counts)
        self._begin(request, segment, is_final)
        end_s = start_s + length_s if start_s is not None and length_s else None
        return self.session.result(where, hypotheses, is_final, start_s, end_s)

    def _begin(self, request: str | None, segment: float | None, is_final: bool) -> None:
        """Begins another recording where the message is one of another request.

        Partial results have no ``id``; their request is known when its first final one comes.
        """
        if segment is not None and segment <= self._segment:
            self.session.restart()
            self._request, self._segment = None, -1.0
        if request is not None and request != self._request:
            if self._request is None and not self.session.n_finals:
                self.session.name = request
            else:
                self.session.restart(request)
                self._segment = -1.0
            self._request = request
        if is_final and segment is not None:
            self._segment = segment


def _check_status(where: str, record: fields.Object) -> None:
    status = fields.number(where, record, "status", least=-fields.MAX)
    if status is None:
        raise FormatError(
            f"{where}: expected a message of kaldi-gstreamer-server with 'status', got "
            f"{', '.join(map(repr, list(record)[:4])) or 'an empty object'}; --from names what the input is"
        )
    if status:
        what = _STATUS.get(int(status), "unknown")
        message = fields.string(where, record, "message")
        raise FormatError(
            f"{where}: expected status 0, got {status:g} ({what}{f': {message}' if message else ''}); "
            "the server has no result, send the audio again"
        )


def _to_hypotheses(
    where: str, record: fields.Object, text: str, shift_s: float, counts: Counter[str]
) -> list[Hypothesis]:
    entries = fields.objects(where, record, "hypotheses") or ()
    words = [_to_words(place, entry, text, shift_s, counts) for place, entry in entries]
    if len(words) < 2:
        return [Hypothesis(words[0] if words else ())]
    posteriors = _posteriors(where, entries)
    return [Hypothesis(w, posterior=p) for w, p in zip(words, posteriors, strict=True)]


def _posteriors(where: str, entries: tuple[tuple[str, fields.Object], ...]) -> list[float] | list[None]:
    """Weights from likelihoods, else from confidences."""
    scores = [fields.number(place, entry, "likelihood", least=-fields.MAX) for place, entry in entries]
    known = [s for s in scores if s is not None]
    if known and len(known) < len(scores):
        raise FormatError(
            f"{where}: expected a 'likelihood' of each hypothesis or of none, got {len(known)} of {len(scores)}; "
            "add the others"
        )
    if known:
        return weights(known)
    confidences = [fields.confidence(place, entry, "confidence") for place, entry in entries]
    given = [c for c in confidences if c is not None]
    total = sum(given)
    return [c / total for c in given] if len(given) == len(entries) and total > 0 else [None] * len(entries)


def _to_words(where: str, record: fields.Object, text: str, shift_s: float, counts: Counter[str]) -> tuple[Word, ...]:
    """The decoder's own words."""
    written = fields.string(where, record, f"original-{text}")
    if written is None:
        written = fields.string(where, record, text)
    entries = fields.objects(where, record, "word-alignment")
    if entries is None:
        if written is None:
            raise FormatError(f"{where}: expected a string '{text}', got none; add it")
        return fields.words(written)
    words = tuple(_to_word(place, entry, shift_s) for place, entry in entries)
    if written is not None and split_fields(written) != [w.word for w in words]:
        counts["texts that differ from their words"] += 1
    return words


def _to_word(where: str, record: fields.Object, shift_s: float) -> Word:
    word = fields.token(where, record, "word")
    start_s, length_s = fields.number(where, record, "start"), fields.number(where, record, "length")
    if word is None or start_s is None or length_s is None:
        missing = next(f for f, v in (("word", word), ("start", start_s), ("length", length_s)) if v is None)
        raise FormatError(f"{where}: expected 'word', 'start' and 'length', got no '{missing}'; add it")
    return Word(word, shift_s + start_s, length_s, fields.confidence(where, record, "confidence"))
