"""Results of Vosk, as its recognizers and vosk-server print them: JSON objects one after the other.

- ``{"text", "result": [{"word", "start", "end", "conf"}]}``: final. ``result`` is there after ``SetWords(True)``.
- ``{"alternatives": [{"text", "confidence", "result"}]}``: final, after ``SetMaxAlternatives(n)``, best first.
- ``{"partial", "partial_result"}``: not final.

``conf`` is a posterior. ``confidence`` of an alternative is not: Vosk (NbestResult in recognizer.cc) puts the
negated cost of the path there, graph and scaled acoustic cost added, so a natural log likelihood such as 850.3 of no
fixed range. Differences of it mean the same as in the lattice that ``conf`` is computed from, so that the softmax over
the list is each path's posterior among those listed. That becomes ``Hypothesis.posterior``; words of alternatives
have no confidence.
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


def read_vosk(rx: RxFilename, rec_id: str, counts: Counter[str] | None = None) -> Iterator[Result | FormatError]:
    """The results of a stream, and in its place what is none.

    Args:
        rx: what to read.
        rec_id: the recording; one after which the clock starts again is another, ``<rec_id>-2``.
        counts: takes how many finals, partials and speaker vectors there were, texts that differ from their words,
            and words that never became final.

    Raises:
        FormatError: a broken stream.
    """
    counts = Counter() if counts is None else counts
    session = Session(rec_id, counts)
    for message in read_messages(rx):
        try:
            yield message if isinstance(message, FormatError) else _to_result(message, session, counts)
        except FormatError as e:
            yield e
    session.close()


def _to_result(message: Message, session: Session, counts: Counter[str]) -> Result:
    where, record = message.where, message.record
    if "spk" in record:
        counts["speaker vectors"] += 1
    if "partial" in record:
        words = _to_words(where, record, "partial", "partial_result", counts)
        return session.result(where, [Hypothesis(words)], is_final=False)
    alternatives = fields.objects(where, record, "alternatives")
    if alternatives is not None:
        return session.result(where, _to_hypotheses(where, alternatives, counts), is_final=True)
    if "text" not in record and "result" not in record:
        raise FormatError(
            f"{where}: expected a result of Vosk with 'text', 'alternatives' or 'partial', got "
            f"{', '.join(map(repr, list(record)[:4])) or 'none of them'}; --from names what the input is"
        )
    return session.result(where, [Hypothesis(_to_words(where, record, "text", "result", counts))], is_final=True)


def _to_hypotheses(
    where: str, alternatives: tuple[tuple[str, fields.Object], ...], counts: Counter[str]
) -> list[Hypothesis]:
    words = [_to_words(place, record, "text", "result", counts) for place, record in alternatives]
    if len(words) < 2:
        return [Hypothesis(words[0] if words else ())]
    scores = [fields.number(place, record, "confidence", least=-fields.MAX) for place, record in alternatives]
    known = [s for s in scores if s is not None]
    if known and len(known) < len(scores):
        raise FormatError(
            f"{where}: expected a 'confidence' of each alternative or of none, got {len(known)} of {len(scores)}; "
            "add the others"
        )
    posteriors = weights(known) if known else [None] * len(words)
    return [Hypothesis(w, posterior=p) for w, p in zip(words, posteriors, strict=True)]


def _to_words(where: str, record: fields.Object, text: str, result: str, counts: Counter[str]) -> tuple[Word, ...]:
    """The words of a list with times where there is one, else of a text."""
    written = fields.string(where, record, text)
    entries = fields.objects(where, record, result)
    if entries is None:
        return fields.words(written or "")
    words = tuple(_to_word(place, entry) for place, entry in entries)
    if written is not None and split_fields(written) != [w.word for w in words]:
        counts["texts that differ from their words"] += 1
    return words


def _to_word(where: str, record: fields.Object) -> Word:
    word = fields.token(where, record, "word")
    start_s, end_s = fields.number(where, record, "start"), fields.number(where, record, "end")
    if word is None or start_s is None or end_s is None:
        missing = next(f for f, v in (("word", word), ("start", start_s), ("end", end_s)) if v is None)
        raise FormatError(f"{where}: expected 'word', 'start' and 'end', got no '{missing}'; add it")
    if end_s < start_s:
        raise FormatError(f"{where}: expected 'start' before 'end', got {start_s:g} and {end_s:g}; correct them")
    return Word(word, start_s, end_s - start_s, fields.confidence(where, record, "conf"))
