"""Utterances into conversations, and their answers back in input order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kaldi_punct.commands.sources import Item
from kaldi_punct.errors import KaldiPunctError
from kaldi_punct.types import Punctuated

Numbered = tuple[int, Item]


def conversations(items: Iterable[Item], sizes: Mapping[str, int]) -> Iterator[list[Numbered]]:
    """The items of one conversation at a time, in time order, each with its number in the input.

    A conversation comes as soon as all of its utterances have come, at the latest when the input ends.

    Args:
        items: in input order.
        sizes: how many utterances each conversation has.
    """
    waiting: dict[str, list[Numbered]] = {}
    for number, item in enumerate(items):
        name = item.conversation
        if name is None:
            yield [(number, item)]
            continue
        waiting.setdefault(name, []).append((number, item))
        if len(waiting[name]) >= sizes.get(name, 0):
            yield _in_time(waiting.pop(name))
    for group in waiting.values():
        yield _in_time(group)


def in_input_order(
    answers: Iterable[tuple[int, Item, Punctuated | KaldiPunctError]],
) -> Iterator[tuple[Item, Punctuated | KaldiPunctError]]:
    """The answers by their items' numbers.

    Only what came before its turn is held.
    """
    held: dict[int, tuple[Item, Punctuated | KaldiPunctError]] = {}
    next_out = 0
    for number, item, answer in answers:
        held[number] = (item, answer)
        while next_out in held:
            yield held.pop(next_out)
            next_out += 1


def _in_time(group: list[Numbered]) -> list[Numbered]:
    return sorted(group, key=lambda entry: entry[1].utterance.start_s or 0.0)
