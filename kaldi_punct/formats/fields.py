"""Fields of a JSON object, each checked as it is taken; a field that is not there is None."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from kaldi_punct.errors import FormatError
from kaldi_punct.kaldi.streams import split_fields
from kaldi_punct.types import Word

Object = Mapping[str, object]

MAX = sys.float_info.max
_CONFIDENCE_SLACK = 1e-3  # sums of posteriors may pass 1 by rounding


def token(where: str, record: Object, field: str) -> str | None:
    """A string that can stand in a table: as a key, a column, a word.

    Raises:
        FormatError: not a string, or one that holds blanks or is empty.
    """
    value = string(where, record, field)
    if value is not None and split_fields(value) != [value]:
        raise FormatError(
            f"{where}: expected a string '{field}' without blanks, got {json.dumps(value)[:40]}; "
            + ("write one object a word" if field == "word" else "put e.g. _ in their place")
        )
    return value


def string(where: str, record: Object, field: str) -> str | None:
    """A string of whole characters.

    Raises:
        FormatError: something else.
    """
    value = record.get(field)
    if value is not None and not isinstance(value, str):
        raise FormatError(f"{where}: expected a string '{field}', got {kind(value)}; put it in quotes")
    if value is not None and any("\ud800" <= c <= "\udfff" for c in value):
        raise FormatError(
            f"{where}: expected a string '{field}' of whole characters, got half a surrogate pair: "
            f"{json.dumps(value)[:40]}; write the character itself"
        )
    return value


def number(where: str, record: Object, field: str, *, least: float = 0.0) -> float | None:
    """A finite number.

    Args:
        where: the place of the object, for an error's text.
        record: the object.
        field: the name of its field.
        least: the smallest that it may be.

    Raises:
        FormatError: something else.
    """
    value = record.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= MAX:
        bound = f" of at least {least:g}" if least > -MAX else ""
        raise FormatError(
            f"{where}: expected a number '{field}'{bound}, got {json.dumps(value)[:40]}; null says that it is unknown"
        )
    return float(value)


def confidence(where: str, record: Object, field: str) -> float | None:
    """A number from 0 to 1.

    Raises:
        FormatError: something else.
    """
    value = number(where, record, field)
    if value is not None and value > 1 + _CONFIDENCE_SLACK:
        raise FormatError(f"{where}: expected a '{field}' from 0 to 1, got {value:g}; leave it out if there is none")
    return None if value is None else min(value, 1.0)


def objects(where: str, record: Object, field: str) -> tuple[tuple[str, Object], ...] | None:
    """The objects of a list, each with its place for an error's text.

    Raises:
        FormatError: not a list, or one that holds something else.
    """
    value = record.get(field)
    if value is None:
        return None
    if not isinstance(value, list):
        raise FormatError(f"{where}: expected a list '{field}', got {kind(value)}; put it in [ ]")
    places = [f"{where}: {field}[{i}]" for i in range(len(value))]
    for place, item in zip(places, value, strict=True):
        if not isinstance(item, dict):
            raise FormatError(f"{place}: expected an object, got {kind(item)}; put it in {{ }}")
    return tuple(zip(places, value, strict=True))


def words(text: str) -> tuple[Word, ...]:
    """Words of which nothing else is known, split at ASCII blanks as Kaldi splits."""
    return tuple(Word(w) for w in split_fields(text))


def kind(value: object) -> str:
    """What a value of JSON is, in words."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")
