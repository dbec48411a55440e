"""Memory of ``nbest`` and ``ctm`` on long archives: one lattice at a time, so it must not grow with their number.

An archive of each size comes out of a pipe, made while it is read from the small lattices of egs/mini; what is written
goes to files that are thrown away. Prints a Markdown row for each verb and size.

    python benchmarks/lattice_memory.py --sizes 10000 100000
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
MINI = REPO / "egs" / "mini"
_N_KINDS = 5  # of lattices that take turns: the smallest of the sample, so that 100,000 take minutes


@dataclass(frozen=True)
class Measured:
    """One run.

    Attributes:
        max_rss_mib: the most memory that the process held.
        seconds: wall-clock time.
        n_done: lattices that it says it did.
    """

    max_rss_mib: float
    seconds: float
    n_done: int


def generate(n: int) -> None:
    """Writes an archive of n lattices to stdout."""
    from kaldi_punct.kaldi.lattice import Lattice, read_archive, to_bytes

    values = []
    for path in sorted((MINI / "decode").glob("lat.*.gz")):
        with gzip.open(path) as stream:
            values += [
                to_bytes(lattice) for _, lattice in read_archive(stream, path.name) if isinstance(lattice, Lattice)
            ]
    values = sorted(values, key=len)[:_N_KINDS]
    for i in range(n):
        sys.stdout.buffer.write(f"utt-{i:07d} ".encode() + values[i % len(values)])


def measure(verb: str, n: int, n_threads: int = 1) -> Measured:
    """Runs one verb over an archive of n lattices.

    Raises:
        RuntimeError: it failed.
    """
    source = f"ark:{sys.executable} {Path(__file__).resolve()} --generate {n} |"
    options = ["--acoustic-scale", "0.1", "--frame-shift", "0.03", "--transition-model", MINI / "trans.mdl"]
    options += ["--word-boundary", MINI / "lang/phones/word_boundary.int", "--nj", n_threads]
    options += ["--n", 3] if verb == "nbest" else []
    with tempfile.TemporaryDirectory(prefix="kaldi_punct_memory.") as folder, Path(folder, "log").open("w+b") as log:
        command = [sys.executable, "-m", "kaldi_punct.cli", verb, *map(str, options)]
        command += [source, str(MINI / "lang/words.txt"), str(Path(folder, "out"))]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPO), os.environ.get("PYTHONPATH", "")])}
        begin = time.perf_counter()
        process = subprocess.Popen(command, stderr=log, env=env)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        said = log.read().decode(errors="replace")
    if process.returncode != 0 or f"Done {n}, 0 errors" not in said:
        raise RuntimeError(f"{verb} of {n} lattices ended with status {process.returncode}:\n{said[-2000:]}")
    return Measured(usage.ru_maxrss / 1024, seconds, n)


def main() -> int:
    """Prints the table; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0], allow_abbrev=False)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000], help="lattices of the archives")
    parser.add_argument("--verbs", nargs="+", default=["ctm", "nbest"], choices=["ctm", "nbest"])
    parser.add_argument("--nj", type=int, default=1, help="threads")
    parser.add_argument("--generate", type=int, metavar="N", help="only write an archive of N lattices to stdout")
    args = parser.parse_args()
    if args.generate is not None:
        generate(args.generate)
        return 0
    print("| verb | lattices | threads | max RSS, MiB | seconds |\n| --- | --- | --- | --- | --- |")
    for verb in args.verbs:
        for n in args.sizes:
            got = measure(verb, n, args.nj)
            print(f"| {verb} | {n} | {args.nj} | {got.max_rss_mib:.1f} | {got.seconds:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
