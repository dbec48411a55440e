"""Transcripts of podcasts, ``episode turn speaker text``: an utterance a turn, a conversation an episode."""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kaldi_punct.errors import FormatError
from kaldi_punct.preparation.distribution import SetCounts
from kaldi_punct.preparation.rows import read_rows
from kaldi_punct.preparation.writing import Report, Track, counts_of, new_data_dir, untracked

log = logging.getLogger(__name__)

_FIELDS = "episode turn speaker text"
_ENTITY = re.compile(r"&(?:#[0-9]+|#[xX][0-9A-Fa-f]+|[A-Za-z][0-9A-Za-z]*);")  # not "AT&T": no entity without its ";"


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
    episodes: dict[str, list[tuple[str, str, str]]] = {}
    n_entities = 0
    for n, (episode, turn, speaker, text) in track(read_rows(source, _FIELDS, report), "row"):
        if not episode or " " in episode + turn:
            report(
                FormatError(
                    f"{source}:{n}: expected an episode and a turn without blanks, got '{episode}', '{turn}'; left out"
                )
            )
            continue
        plain, n_here = unescape(text)
        n_entities += n_here
        episodes.setdefault(episode, []).append((turn, speaker, " ".join(plain.split(" ")).strip()))
    if not episodes:
        raise FormatError(f"{source}: expected rows '{_FIELDS}' with tabs between, got none that can be used")
    names = draw_episodes(episodes, max_words, seed) if max_words else sorted(episodes)
    texts, speakers, recordings = {}, {}, dict[str, list[str]]()
    for episode in names:
        for turn, speaker, text in episodes[episode]:
            if not text:
                continue
            spk_id = f"{episode}-{re.sub(r'[^0-9A-Za-z]+', '_', speaker)}"
            utt_id = f"{spk_id}-{turn}"
            texts[utt_id], speakers[utt_id] = text, spk_id
            recordings.setdefault(episode, []).append(utt_id)
    with new_data_dir(out) as writer:
        writer.write_table("text_punct", texts)
        writer.write_table("utt2spk", speakers)
        writer.write_table("reco2utt", {r: " ".join(u) for r, u in recordings.items()})
    n_words = sum(t.count(" ") + 1 for t in texts.values())
    log.info("%d of %d episodes, %d turns, %d words", len(names), len(episodes), len(texts), n_words)
    log.info("%s: %d HTML entities became what they stand for", source, n_entities)
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


def draw_episodes(episodes: Mapping[str, list[tuple[str, str, str]]], max_words: int, seed: int) -> list[str]:
    """Episodes in an order drawn by ``seed``, until they hold so many words; sorted."""
    names = sorted(episodes)
    drawn: list[str] = []
    n_words = 0
    for i in np.random.default_rng(seed).permutation(len(names)):
        if n_words >= max_words:
            break
        drawn.append(names[i])
        n_words += sum(text.count(" ") + 1 for _, _, text in episodes[names[i]])
    return sorted(drawn)
