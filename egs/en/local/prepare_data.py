#!/usr/bin/env python3
"""Punctuated Kaldi data directories of podcasts, ami and earnings21.

e.g.: local/prepare_data.py podcasts corpora/podcasts/train.turns.tsv.gz data/podcasts_train --max-words 3000000

podcasts    `episode turn speaker text`: one utterance a turn, `reco2utt` says which turns make an episode
ami         `meeting channel start end word mark`: one utterance a meeting and channel (one channel a person), with a
            CTM.
            Spelled words `X_M_L_` become XML; words without times begin where the word before ends
            and last 0 s, words that step back begin with the word before (both counted)
earnings21  a directory with `ctm.gz` and `text_punct.call.gz`: one utterance a call, the CTM as the decoder wrote it
"""

from __future__ import annotations

import argparse
import gzip
import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

log = logging.getLogger("prepare_data")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", choices=("podcasts", "ami", "earnings21"))
    parser.add_argument("source", type=Path)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument(
        "--max-words", type=int, default=0, help="whole episodes, drawn by --seed, up to this many words (podcasts)"
    )
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    args.data_dir.mkdir(parents=True, exist_ok=True)
    if args.corpus == "podcasts":
        prepare_podcasts(args.source, args.data_dir, args.max_words, args.seed)
    elif args.corpus == "ami":
        prepare_ami(args.source, args.data_dir)
    else:
        prepare_earnings21(args.source, args.data_dir)


def prepare_podcasts(source: Path, data_dir: Path, max_words: int, seed: int) -> None:
    episodes: dict[str, list[tuple[str, str, str]]] = {}
    for episode, turn, speaker, text in read_rows(source, 4):
        episodes.setdefault(episode, []).append((turn, speaker, " ".join(text.split(" ")).strip()))
    names = sorted(episodes)
    if max_words:
        names = draw_episodes(names, episodes, max_words, seed)
    texts, speakers, recordings = {}, {}, {}
    for episode in names:
        for turn, speaker, text in episodes[episode]:
            if not text:
                continue
            spk_id = f"{episode}-{re.sub(r'[^0-9A-Za-z]+', '_', speaker)}"
            utt_id = f"{spk_id}-{turn}"
            texts[utt_id], speakers[utt_id] = text, spk_id
            recordings.setdefault(episode, []).append(utt_id)
    write_table(data_dir / "text_punct", texts)
    write_table(data_dir / "utt2spk", speakers)
    write_table(data_dir / "reco2utt", {r: " ".join(u) for r, u in recordings.items()})
    log.info(
        "%d of %d episodes, %d turns, %d words",
        len(names),
        len(episodes),
        len(texts),
        sum(t.count(" ") + 1 for t in texts.values()),
    )


def draw_episodes(
    names: list[str], episodes: dict[str, list[tuple[str, str, str]]], max_words: int, seed: int
) -> list[str]:
    drawn, n_words = [], 0
    for i in np.random.default_rng(seed).permutation(len(names)):
        if n_words >= max_words:
            break
        drawn.append(names[i])
        n_words += sum(text.count(" ") + 1 for _, _, text in episodes[names[i]])
    return sorted(drawn)


def prepare_ami(source: Path, data_dir: Path) -> None:
    texts: dict[str, list[str]] = {}
    ctm: dict[str, list[str]] = {}
    n_blank = n_back = 0
    start_s = end_s = 0.0
    for meeting, channel, start, end, word, mark in read_rows(source, 6):
        utt_id = f"{meeting}-{channel}"
        if utt_id not in texts:
            start_s = end_s = 0.0
        if not start or not end:
            n_blank += 1
            start = end = str(end_s)
        n_back += float(start) < start_s
        start_s = max(float(start), start_s)
        end_s = max(float(end), start_s)
        if re.fullmatch(r"(?:\w_)+(?:'?s)?", word):
            word = word.replace("_", "")
        word = word.replace(" ", "")
        ctm.setdefault(utt_id, []).append(f"{utt_id} 1 {start_s:.2f} {end_s - start_s:.2f} {word.lower()}")
        texts.setdefault(utt_id, []).append(word + mark)
    write_table(data_dir / "text_punct", {u: " ".join(w) for u, w in texts.items()})
    with open(data_dir / "ctm", "w", encoding="utf-8") as f:
        f.writelines(line + "\n" for utt_id in sorted(ctm) for line in ctm[utt_id])
    log.info(
        "%d meeting channels, %d words, %d of them without times, %d moved to the start of the word before",
        len(texts),
        sum(map(len, ctm.values())),
        n_blank,
        n_back,
    )


def prepare_earnings21(source: Path, data_dir: Path) -> None:
    shutil.copyfile(source / "ctm.gz", data_dir / "ctm.gz")
    shutil.copyfile(source / "text_punct.call.gz", data_dir / "text_punct.gz")
    log.info("the CTM and the reference of %s", source)


def read_rows(path: Path, n_fields: int) -> Iterator[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            fields = line.rstrip("\n").split("\t")
            if len(fields) != n_fields:
                raise SystemExit(f"{path}:{number}: expected {n_fields} fields, got {len(fields)}")
            yield fields


def write_table(path: Path, table: dict[str, str]) -> None:
    with open(path, "w", encoding="utf-8") as f:
        f.writelines(f"{key} {table[key]}\n" for key in sorted(table))


if __name__ == "__main__":
    main()
