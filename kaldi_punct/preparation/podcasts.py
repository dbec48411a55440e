"""Transcripts of podcasts, ``episode turn speaker text``: an utterance a turn, a conversation an episode."""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kaldi_punct.errors import FormatError
from kaldi_punct.preparation.distribution import SetCounts
from kaldi_punct.preparation.rows import read_rows
from kaldi_punct.preparation.writing import Report, Track, counts_of, new_data_dir, untracked

log = logging.getLogger(__name__)

_FIELDS = "episode turn speaker text"
_ENTITY = re.compile(r"&(?:#[0-9]+|#[xX][0-9A-Fa-f]+|[A-Za-z][0-9A-Za-z]*);")  # not "AT&T": no entity without its ";"


@dataclass(frozen=True, slots=True)
class _Turn:
    utt_id: str
    spk_id: str
    text: str


def prepare_podcasts(
    source: Path, out: Path, max_words: int, seed: int, report: Report, track: Track = untracked
) -> SetCounts:
    """Writes ``text_punct``, ``utt2spk`` and ``reco2utt``; returns what they hold.

    Args:
        source: rows with tabs, packed or not.
        out: the directory to make.
        max_words: take whole episodes, drawn by ``seed``, up to so many words; 0 takes all.
        seed: of that order.
        report: takes bad rows.
        track: shows how far it is.

    Raises:
        FormatError: no row can be used.
    """
    episodes: dict[str, list[_Turn]] = {}
    seen: set[tuple[str, str, str]] = set()
    n_entities = n_empty = 0
    for n, (episode, turn, speaker, text) in track(read_rows(source, _FIELDS, report), "row"):
        spk_id = f"{episode}-{re.sub(r'[^0-9A-Za-z]+', '_', speaker)}"
        if not episode or not turn or " " in episode + turn or (episode, spk_id, turn) in seen:
            report(
                FormatError(
                    f"{source}:{n}: expected an episode and a turn without blanks, each once, got '{episode}', "
                    f"'{turn}'; left out"
                )
            )
            continue
        seen.add((episode, spk_id, turn))
        plain, n_here = unescape(text)
        n_entities += n_here
        n_empty += not plain.strip()
        episodes.setdefault(episode, []).append(_Turn(f"{spk_id}-{turn}", spk_id, plain.strip()))
    if not episodes:
        raise FormatError(f"{source}: expected rows '{_FIELDS}' with tabs between, got none that can be used")
    names = draw_episodes(episodes, max_words, seed) if max_words else sorted(episodes)
    turns = {e: [t for t in episodes[e] if t.text] for e in names}
    texts = {t.utt_id: t.text for e in names for t in turns[e]}
    with new_data_dir(out) as writer:
        writer.write_table("text_punct", texts)
        writer.write_table("utt2spk", {t.utt_id: t.spk_id for e in names for t in turns[e]})
        writer.write_table("reco2utt", {e: " ".join(t.utt_id for t in turns[e]) for e in names if turns[e]})
    n_words = sum(t.count(" ") + 1 for t in texts.values())
    log.info("%d of %d episodes, %d turns, %d words", len(names), len(episodes), len(texts), n_words)
    log.info("%s: %d HTML entities became what they stand for, %d turns are empty", source, n_entities, n_empty)
    return counts_of(writer)


def unescape(text: str) -> tuple[str, int]:
    """Text with HTML entities (``&#39;``) as what they stand for, and how many there were.

    A blank that no Kaldi table may hold (``&nbsp;``, a line's end) becomes a plain one.
    """
    n = 0

    def replace(found: re.Match[str]) -> str:
        nonlocal n
        plain = html.unescape(found.group())
        n += plain != found.group()
        return " " if plain.isspace() else plain

    return _ENTITY.sub(replace, text), n


def draw_episodes(episodes: Mapping[str, Sequence[_Turn]], max_words: int, seed: int) -> list[str]:
    """Episodes in an order drawn by ``seed``, until they hold so many words; sorted."""
    names = sorted(episodes)
    drawn: list[str] = []
    n_words = 0
    for i in np.random.default_rng(seed).permutation(len(names)):
        if n_words >= max_words:
            break
        drawn.append(names[i])
        n_words += sum(t.text.count(" ") + 1 for t in episodes[names[i]])
    return sorted(drawn)
