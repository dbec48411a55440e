#!/usr/bin/env python3
"""Prints rows of a table from the counts of its runs, inner slots and end slots apart, with p-values.

e.g.: local/show_table.py --kind ref --folds a b --seeds 1 --baseline text text timing sound all

A row pools what its model got on the other fold, over the folds it was trained on (and seeds): each recording is
scored by a model that never saw it. A second table has the same models on dev. p is that of the difference in micro F1
to the baseline, and of the question mark's F1 at ends (paired bootstrap over recordings, two-sided). A row whose runs
are not all there says which are missing, and is compared where it has the baseline's recordings.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from compare_slots import KINDS, read_counts

from kaldi_punct.scoring import Rates
from kaldi_punct.significance import Counts, compare

Pool = dict[str, dict[str, Counts]]  # kind of slot -> recording -> mark -> counts
MARKS = (",", ".", "?")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--kind", required=True, help="ref or asr: the words that were scored")
    parser.add_argument("--suffix", default="", help="of the training sets: _1h")
    parser.add_argument("--folds", nargs="+", default=["a", "b"])
    parser.add_argument("--seeds", nargs="+", default=["1"])
    parser.add_argument("--baseline", required=True)
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    for where in ("the other fold", "dev"):
        print(f"\n{args.kind} words, scored on {where}\n")
        show_table(args, on_dev=where == "dev")


def show_table(args: argparse.Namespace, *, on_dev: bool) -> None:
    """One Markdown table."""
    rows = {m: read_pool(args, m, on_dev=on_dev) for m in dict.fromkeys([args.baseline, *args.models])}
    base, _ = rows[args.baseline]
    print("| model | inner , | . | ? | inner micro | p | end , | . | ? | p | end micro | p |")
    print("|" + " --- |" * 12)
    for model in args.models:
        pool, missing = rows[model]
        note = f" (without {' '.join(missing)})" if missing else ""
        if not pool["inner"]:
            print(f"| {model}{note} |" + " - |" * 11)
            continue
        print(f"| {model}{note} | {' | '.join(cells(pool, base, is_base=model == args.baseline))} |")
    if base["inner"]:
        total = {kind: add_counts(list(base[kind].values())) for kind in KINDS}
        support = "; ".join(f"{k} " + ", ".join(f"`{m}` {total[k][m].n_ref:,}" for m in MARKS) for k in KINDS)
        print(f"\nSupport: {support}; {len(base['inner'])} recordings.")


def cells(pool: Pool, base: Pool, *, is_base: bool) -> list[str]:
    """What stands in a row."""
    out: list[str] = []
    for kind in KINDS:
        total = add_counts(list(pool[kind].values()))
        shared = len(pool[kind].keys() & base[kind].keys()) >= 2 and not is_base
        against = compare(base[kind], pool[kind], n_samples=2000) if shared else None
        out.extend(f"{total[m].f1:.1f}" for m in MARKS)
        if kind == "end":
            out.append("" if against is None else f"{against.marks['?'].p:.3f}")
        out.append(f"{micro(total).f1:.1f}")
        out.append("" if against is None else f"{against.micro.p:.3f}")
    return out


def read_pool(args: argparse.Namespace, model: str, *, on_dev: bool) -> tuple[Pool, list[str]]:
    """(counts of all runs of a model, recordings that several of them scored added up; the runs that are missing)."""
    runs: list[Pool] = []
    missing: list[str] = []
    for fold in args.folds:
        scored = "dev" if on_dev else "b" if fold == "a" else "a"
        for seed in args.seeds:
            name = f"{args.kind}_{fold}_{model}{args.suffix}_s{seed}"
            path = args.results / f"{name}.{scored}.jsonl.gz"
            if path.is_file():
                runs.append(read_counts([str(path)]))
            else:
                missing.append(name)
    pool: Pool = {kind: {} for kind in KINDS}
    for kind in KINDS:
        for rec_id in dict.fromkeys(r for run in runs for r in run[kind]):
            pool[kind][rec_id] = add_counts([run[kind][rec_id] for run in runs if rec_id in run[kind]])
    return pool, missing


def add_counts(counts: Sequence[Counts]) -> Mapping[str, Rates]:
    """The sum, mark by mark."""
    return {
        m: Rates(sum(c[m].n_ref for c in counts), sum(c[m].n_hyp for c in counts), sum(c[m].n_hit for c in counts))
        for m in MARKS
    }


def micro(total: Mapping[str, Rates]) -> Rates:
    """All marks together."""
    return Rates(*(sum(getattr(r, n) for r in total.values()) for n in ("n_ref", "n_hyp", "n_hit")))


if __name__ == "__main__":
    main()
