"""Parts of a data directory: whole recordings up to so many hours, and sets that share no call."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from kaldi_punct.errors import FormatError
from kaldi_punct.kaldi.data_dir import DataDir
from kaldi_punct.kaldi.streams import to_seconds
from kaldi_punct.kaldi.tables import read_text


def drawn_order(names: Iterable[str], seed: int) -> list[str]:
    """Names in an order drawn by ``seed``.

    A name's place among others depends on these names and the seed alone: to add or take away a recording does not
    move the rest.
    """
    return sorted(names, key=lambda name: (hashlib.sha256(f"{seed} {name}".encode()).digest(), name))


def durations_s(data: DataDir) -> dict[str, float | None]:
    """Seconds of each utterance: its segment, else ``utt2dur``, else from its first word to the end of its last.

    None where none of them tells.
    """
    path = data.path / "utt2dur"
    known = {u: to_seconds(str(path), n, s) for n, (u, s) in enumerate(read_text(path), 1)} if path.is_file() else {}
    return {u: _duration_s(data, u, known) for u in data.utt_ids}


def call_of(data: DataDir, utt_id: str) -> str:
    """What must not be torn apart: the file that an utterance's recording is a channel of, else the recording."""
    rec_id, _ = data.place(utt_id)
    return data.reco2file_and_channel[rec_id][0] if rec_id in data.reco2file_and_channel else rec_id


def take_hours(seconds: Mapping[str, float], hours: float, seed: int, name: str = "") -> set[str]:
    """As few calls as hold at least so many hours, in the order that ``seed`` draws: 1 hour lies within 10 hours.

    Args:
        seconds: of each call.
        hours: how many are wanted.
        seed: of the order.
        name: of the data, for an error.

    Raises:
        FormatError: there are fewer hours.
    """
    taken: set[str] = set()
    total_s = 0.0
    for call in drawn_order(seconds, seed):
        if total_s >= hours * 3600:
            break
        taken.add(call)
        total_s += seconds[call]
    if total_s < hours * 3600:
        raise FormatError(f"{name}: expected at least {hours:g} hours, got {total_s / 3600:.2f}; ask for fewer")
    return taken


def split_calls(calls: Iterable[str], shares: Mapping[str, float], rest: str, seed: int) -> dict[str, str]:
    """The set of each call: sets take their share of the calls, in the order that ``seed`` draws, ``rest`` the others.

    Args:
        calls: their names.
        shares: 0..1 of each set but the rest.
        rest: the set of all others.
        seed: of the order.
    """
    order = drawn_order(calls, seed)
    out: dict[str, str] = {}
    for name, share in shares.items():
        start = len(out)
        out.update(dict.fromkeys(order[start : start + round(share * len(order))], name))
    out.update(dict.fromkeys(order[len(out) :], rest))
    return out


def _duration_s(data: DataDir, utt_id: str, known: Mapping[str, float]) -> float | None:
    segment = data.segments.get(utt_id)
    if segment is not None and segment.end_s is not None:
        return segment.end_s - segment.start_s
    if utt_id in known:
        return known[utt_id]
    words = data.ctm.get(utt_id, ())
    if not words:
        return 0.0 if data.ctm.exists else None
    first, last = words[0], words[-1]
    assert first.start_s is not None, "Words of a CTM have times. This is a bug."
    assert last.end_s is not None, "Words of a CTM have times. This is a bug."
    return last.end_s - first.start_s
