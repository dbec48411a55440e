"""What our lattice engine and a reference Kaldi answer on the same lattices: the table of docs/lattices.md.

    python benchmarks/golden.py DIR [--set gmm-lj ...] [--row mbr ...]

DIR holds sets of lattices with Kaldi's answers (its README says which files). A cell says for how many utterances all
that must be identical is (words, their order, integers), and the largest difference of numbers: costs relative, times
in seconds. "ties": hypotheses whose total costs differ by less than 1e-6 relative and that stand in another order.
"-": the set lacks the answer.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import golden_lattices
import golden_measures
import golden_paths
import golden_sausages
from golden_sets import SETS, Check, GoldenSet, Score
from tqdm import tqdm

from kaldi_punct.errors import KaldiPunctError

ROWS = golden_lattices.ROWS + golden_paths.ROWS + golden_sausages.ROWS + golden_measures.ROWS


def main() -> int:
    """Prints the table; exit status 1 if something that must be identical is not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("golden", type=Path, metavar="DIR", help="the sets of lattices and Kaldi's answers")
    parser.add_argument("--set", action="append", choices=list(SETS), help="only this set; may be repeated")
    parser.add_argument("--row", action="append", metavar="WORD", help="only rows with this in their name; repeatable")
    args = parser.parse_args()
    names = args.set or list(SETS)
    sets = [GoldenSet(args.golden / name, *SETS[name]) for name in names]
    missing = [this.folder for this in sets if not (this.folder / "lat.ark").is_file()]
    if missing:
        parser.error(f"DIR: expected a folder with sets of lattices, got no {missing[0]}/lat.ark; check the path")
    rows = [(name, check) for name, check in ROWS if not args.row or any(word in name for word in args.row)]
    print(f"| Kaldi | {' | '.join(names)} |")
    print("|" + " --- |" * (len(names) + 1), flush=True)
    all_equal = True
    for name, check in tqdm(rows, file=sys.stderr, leave=False, disable=None):
        scores = [answer(check, this) for this in sets]
        all_equal &= all(score is None or score.is_equal for score in scores)
        print(f"| {name} | {' | '.join('-' if score is None else str(score) for score in scores)} |", flush=True)
    return 0 if all_equal else 1


def answer(check: Check, this: GoldenSet) -> Score | None:
    """One cell; None if the set has no such answer."""
    total = Score()
    try:
        for score in check(this):
            total = total.with_utterance(score)
    except FileNotFoundError:
        return None
    except KaldiPunctError as e:
        print(f"{this.name}: {e}", file=sys.stderr)
        return total.with_utterance(Score(n_wrong=1))
    return total


if __name__ == "__main__":
    sys.exit(main())
