"""Many conversations through a model: short ones share batches, answers equal those of one alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from kaldi_punct.commands.conversations import Numbered
from kaldi_punct.commands.sources import Item
from kaldi_punct.errors import KaldiPunctError
from kaldi_punct.types import Hypothesis

if TYPE_CHECKING:
    from kaldi_punct.plans import Plan
    from kaldi_punct.punctuator import Punctuator
    from kaldi_punct.types import Audio, Punctuated
    from kaldi_punct.windows import Sound

Answered = tuple[int, Item, "Punctuated | KaldiPunctError"]


def punctuate_groups(
    punctuator: Punctuator,
    groups: Iterable[list[Numbered]],
    sound_of: Callable[[Item], Audio | Sound | None],
    *,
    punctuation: bool = True,
    capitalization: bool = True,
) -> Iterator[Answered]:
    """The answer to each utterance, or why there is none; conversations in order.

    Args:
        punctuator: the model.
        groups: utterances of one conversation each, in time order; read ahead by a batch's worth.
        sound_of: what is heard of a conversation, by its first item.
        punctuation: put marks.
        capitalization: put capitals.
    """
    from kaldi_punct.punctuator import infer_in_groups, split_answer

    plans = ((group, _plan(punctuator, group, sound_of)) for group in groups)
    items = (((g, plan), () if isinstance(plan, KaldiPunctError) else plan.examples) for g, plan in plans)
    for (group, plan), probs in infer_in_groups(punctuator, items):
        if isinstance(plan, KaldiPunctError):
            yield from ((number, item, plan) for number, item in group)
            continue
        whole = punctuator.finish(plan, probs, punctuation=punctuation, capitalization=capitalization)
        parts = split_answer(whole, [item.utterance for _, item in group])
        yield from ((number, item, part) for (number, item), part in zip(group, parts, strict=True))


def _plan(
    punctuator: Punctuator, group: list[Numbered], sound_of: Callable[[Item], Audio | Sound | None]
) -> Plan | KaldiPunctError:
    lists = [item.hypotheses or (Hypothesis(item.utterance.words),) for _, item in group]
    try:
        return punctuator.plan_lists(lists, audio=sound_of(group[0][1]))
    except KaldiPunctError as e:
        return e
