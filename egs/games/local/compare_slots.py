#!/usr/bin/env python3
"""Is one model better than another? By kind of slot: F1 of both, what B has more, 95 % interval and p-value.

e.g.: local/compare_slots.py exp/ref_a_text/b.jsonl exp/ref_a_timing/b.jsonl

Each file is what `local/score_slots.py --counts` wrote, compressed if its name ends in .gz. Files that commas join are
taken together, so that both directions of the folds make one test: `a_text.jsonl,b_text.jsonl a_all.jsonl,b_all.jsonl`.
Paired bootstrap over recordings, two-sided (`kaldi_punct.significance`). A recording that only one side has is counted
and left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

from kaldi_punct.scoring import Rates
from kaldi_punct.significance import N_SAMPLES, Comparison, Counts, compare

KINDS = ("inner", "end")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--n-samples", type=int, default=N_SAMPLES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="all classes and macro too")
    args = parser.parse_args()
    sides = [read_counts(names.split(",")) for names in (args.a, args.b)]
    results = {k: compare(sides[0][k], sides[1][k], n_samples=args.n_samples, seed=args.seed) for k in KINDS}
    if args.json:
        print(json.dumps({kind: result.as_dict() for kind, result in results.items()}))
        return
    print(f"A: {args.a}\nB: {args.b}")
    for kind, result in results.items():
        print("\n".join(rows(kind, result)))


def rows(kind: str, result: Comparison) -> list[str]:
    """micro F1 and F1 of the question mark, and what was left out."""
    out = []
    for name, d in (("micro", result.micro), ("?", result.marks["?"])):
        low, high = d.ci95
        out.append(
            f"{kind} {name}: A {d.a:.1f}, B {d.b:.1f}, B - A {d.difference:+.1f} "
            f"(95 % interval {low:+.1f} to {high:+.1f}), p = {d.p:.4f}, {result.n_units} recordings"
        )
    if result.only_a or result.only_b:
        out.append(f"{kind}: not compared: {len(result.only_a)} recordings only in A, {len(result.only_b)} only in B")
    return out


def read_counts(names: list[str]) -> dict[str, dict[str, Counts]]:
    """Counts by kind of slot and recording."""
    out: dict[str, dict[str, Counts]] = {kind: {} for kind in KINDS}
    for name in names:
        data = Path(name).read_bytes()
        text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
        for number, line in enumerate(text.splitlines(), 1):
            told = json.loads(line)
            units = out[told["kind"]]
            if told["rec_id"] in units:
                raise SystemExit(f"{name}:{number}: expected each recording once, got {told['rec_id']!r} again")
            units[told["rec_id"]] = {mark: Rates(**counts) for mark, counts in told["marks"].items()}
    return out


if __name__ == "__main__":
    main()
