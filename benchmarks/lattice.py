"""How fast lattices become word alignments, N-best lists and CTMs: ours, and Kaldi's pipes beside it.

    python benchmarks/lattice.py                                            # the sample in egs/mini
    python benchmarks/lattice.py --golden DIR --kaldi-bin DIR [--set chain-lj ...]

Each job is a command as a user gives it, timed as a whole from start to end: wall time, CPU time (of all processes of
a pipe together), largest memory of a process. Lattices a second and times real time are by CPU time. Ours works in
one thread; a Kaldi pipe runs as many processes as it has commands, so its wall time is that of several cores where
there are some, unless --pin holds both on one. Ours and Kaldi's take turns, and the median of the runs counts. The
archive is repeated, with keys of its own for each copy.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from kaldi_punct.errors import LatticeError
from kaldi_punct.kaldi.lattice import Lattice, read_archive

ROOT = Path(__file__).resolve().parent.parent
READ = (
    "import sys; from kaldi_punct.kaldi.tables import read_lattices; print(sum(1 for _ in read_lattices(sys.argv[1])))"
)


@dataclass(frozen=True, slots=True)
class Source:
    """Lattices and the decoder that made them. Seconds are of audio."""

    name: str
    archives: tuple[Path, ...]
    words: Path
    word_boundary: Path
    model: Path
    acoustic_scale: float
    frame_shift_s: float


@dataclass(frozen=True, slots=True)
class Archive:
    """A source's lattices, repeated."""

    path: Path
    n_lattices: int
    audio_s: float


@dataclass(frozen=True, slots=True)
class Run:
    """What a pipe took."""

    wall_s: float
    cpu_s: float
    max_rss_mib: float


@dataclass(frozen=True, slots=True)
class Job:
    """The same work done by us and by Kaldi; a pipe is a list of commands."""

    name: str
    ours: list[list[str]]
    kaldi: list[list[str]]


def main() -> int:
    """Runs the benchmark; exit status 1 if a command failed."""
    args = parse_args()
    sources = golden_sources(args.golden, args.set) if args.golden else [mini()]
    if args.pin:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print("| lattices | job | lattices/s | times real time | CPU s | wall s | MiB |", end="")
    print(" Kaldi CPU s | Kaldi wall s | faster, CPU | faster, wall |" if args.kaldi_bin else "")
    print("|" + " --- |" * (11 if args.kaldi_bin else 7))
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            archive = repeated(source, Path(folder) / f"{source.name}.ark", args.lattices)
            for job in jobs(source, archive, args.kaldi_bin, Path(folder)):
                if args.job and job.name not in args.job:
                    continue
                pipes = [job.ours, *([job.kaldi] if args.kaldi_bin else [])]
                runs = take_turns(pipes, args.repeats, f"{source.name}: {job.name}")
                print(row(source, job, archive, runs), flush=True)
    return 0


def parse_args() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--golden", type=Path, metavar="DIR", help="sets of lattices (lat.ark, trans.mdl) in folders")
    parser.add_argument("--set", action="append", choices=list(SETS), help="only this set of --golden; may be repeated")
    parser.add_argument("--job", action="append", help="only this job (read, align, nbest, mbr); may be repeated")
    parser.add_argument("--kaldi-bin", type=Path, metavar="DIR", help="where lattice-align-words and the others lie")
    parser.add_argument("--lattices", type=int, default=1000, help="at least so many in a run (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each command (default %(default)s)")
    parser.add_argument("--pin", action="store_true", help="hold ours and Kaldi's pipes on one core")
    args = parser.parse_args()
    if args.repeats < 1 or args.lattices < 1:
        parser.error("--repeats, --lattices: expected at least 1")
    if args.kaldi_bin and not (args.kaldi_bin / "lattice-align-words").is_file():
        parser.error(f"--kaldi-bin: expected a folder with lattice-align-words (src/latbin), got {args.kaldi_bin}")
    return args


SETS = {
    "gmm-lj": (0.0833333, 0.01),
    "gmm-long": (0.0833333, 0.01),
    "chain-lj": (0.1, 0.03),
    "chain-partial": (0.1, 0.03),
    "tdnn-lstm": (0.1, 0.03),
}


def mini() -> Source:
    """The sample that is part of the project."""
    folder = ROOT / "egs" / "mini"
    lang = folder / "lang"
    archives = tuple(sorted((folder / "decode").glob("lat.*.gz")))
    return Source(
        "mini", archives, lang / "words.txt", lang / "phones" / "word_boundary.int", folder / "trans.mdl", 0.1, 0.03
    )


def golden_sources(golden: Path, names: Sequence[str] | None) -> list[Source]:
    """The sets that are asked for; all without names."""
    out = []
    for name in names or SETS:
        lang = golden / "lang"
        if name == "tdnn-lstm":
            lang = golden.parent / "recipe" / "s5" / "data" / "lang_test"
        folder = golden / name
        files = (folder / "lat.ark",), lang / "words.txt", lang / "phones" / "word_boundary.int", folder / "trans.mdl"
        out.append(Source(name, *files, *SETS[name]))
    return out


def repeated(source: Source, path: Path, at_least: int) -> Archive:
    """Writes one archive of the source's, over and over, until it has enough lattices."""
    entries: list[tuple[str, bytes]] = []
    n_frames = 0
    for name in source.archives:
        data = gzip.decompress(name.read_bytes()) if name.suffix == ".gz" else name.read_bytes()
        read = [(key, checked(lattice)) for key, lattice in read_archive(io.BytesIO(data), name.name)]
        n_frames += sum(lattice.n_frames for _, lattice in read)
        # The origin says where the value begins: behind the key and a blank.
        begins = [int(lattice.origin.rpartition(" ")[2]) for _, lattice in read]
        ends = [begin - len(key.encode()) - 1 for (key, _), begin in zip(read[1:], begins[1:], strict=True)]
        values = zip(read, begins, [*ends, len(data)], strict=True)
        entries += [(key, data[begin:end]) for (key, _), begin, end in values]
    n_copies = -(-at_least // len(entries))
    with path.open("wb") as out:
        for copy in range(n_copies):
            for key, value in entries:
                out.write(f"{copy:06}-{key} ".encode() + value)
    return Archive(path, n_copies * len(entries), n_copies * n_frames * source.frame_shift_s)


def checked(lattice: Lattice | LatticeError) -> Lattice:
    """The lattice; a broken one ends the benchmark."""
    if isinstance(lattice, LatticeError):
        raise lattice
    return lattice


def jobs(source: Source, archive: Archive, kaldi_bin: Path | None, folder: Path) -> list[Job]:
    """All jobs on one archive."""
    lats, out = f"ark:{archive.path}", folder / "out"
    scale = str(source.acoustic_scale)
    shift = str(source.frame_shift_s)
    python = [sys.executable, "-m", "kaldi_punct.cli"]
    files = ["--transition-model", str(source.model), "--word-boundary", str(source.word_boundary)]
    ours = ["--acoustic-scale", scale, "--frame-shift", shift, *files, lats, str(source.words)]

    def kaldi(tool: str, *args: str) -> list[str]:
        return [str((kaldi_bin or Path()) / tool), *args]

    def aligned(lattices: str) -> list[str]:
        return kaldi("lattice-align-words", str(source.word_boundary), str(source.model), lattices, "ark:-")

    to_nbest = kaldi("lattice-to-nbest", f"--acoustic-scale={scale}", "--n=10", lats, "ark:-")
    to_ctm = kaldi("nbest-to-ctm", f"--frame-shift={shift}", "ark:-", str(folder / "kaldi.ctm"))
    to_conf = kaldi("lattice-to-ctm-conf", f"--acoustic-scale={scale}", f"--frame-shift={shift}", "ark:-")
    return [
        Job("read", [[sys.executable, "-c", READ, lats]], [kaldi("lattice-copy", lats, "ark:/dev/null")]),
        Job(
            "align",
            [[*python, "lattice", "align", *files, lats, "ark:/dev/null"]],
            [[*aligned(lats)[:-1], "ark:/dev/null"]],
        ),
        Job("nbest", [[*python, "nbest", "--n", "10", *ours, str(out)]], [to_nbest, aligned("ark:-"), to_ctm]),
        Job(
            "mbr",
            [[*python, "ctm", "--mbr", *ours, str(folder / "ours.ctm")]],
            [aligned(lats), [*to_conf, str(folder / "kaldi.conf.ctm")]],
        ),
    ]


def take_turns(pipes: Sequence[list[list[str]]], repeats: int, name: str) -> list[Run]:
    """The median run of each pipe; they alternate, so that a busy moment of the machine meets all of them."""
    runs: list[list[Run]] = [[] for _ in pipes]
    for _ in tqdm(range(repeats), name, file=sys.stderr, leave=False, disable=None):
        for pipe, of_pipe in zip(pipes, runs, strict=True):
            of_pipe.append(run_pipe(pipe))
    return [Run(*(median(of_pipe, field) for field in Run.__slots__)) for of_pipe in runs]


def median(runs: Sequence[Run], field: str) -> float:
    """The median of one figure."""
    return statistics.median(getattr(run, field) for run in runs)


def run_pipe(commands: Sequence[Sequence[str]]) -> Run:
    """Runs a pipe of commands and measures it.

    Raises:
        SystemExit: a command failed; its last lines are printed.
    """
    env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with ExitStack() as stack:
        logs = [stack.enter_context(tempfile.TemporaryFile()) for _ in commands]
        began_s = time.perf_counter()
        processes: list[subprocess.Popen[bytes]] = []
        for command, log in zip(commands, logs, strict=True):
            before = processes[-1].stdout if processes else subprocess.DEVNULL
            after = subprocess.DEVNULL if command is commands[-1] else subprocess.PIPE
            processes.append(subprocess.Popen(command, stdin=before, stdout=after, stderr=log, env=env))
            if processes[1:] and processes[-2].stdout is not None:
                processes[-2].stdout.close()  # ours to close: else the writer outlives its reader
        usages = [waited(process) for process in processes]
        wall_s = time.perf_counter() - began_s
        for process, command, log in zip(processes, commands, logs, strict=True):
            if process.returncode != 0:
                log.seek(0)
                sys.exit(f"{' '.join(command)}: exit status {process.returncode}\n{log.read()[-2000:].decode()}")
    cpu_s = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    return Run(wall_s, cpu_s, max(usage.ru_maxrss for usage in usages) / 1024)


def waited(process: subprocess.Popen[bytes]) -> resource.struct_rusage:
    """What a process used until its end."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage


def row(source: Source, job: Job, archive: Archive, runs: Sequence[Run]) -> str:
    """A row of the table."""
    ours = runs[0]
    cells = [source.name, job.name, f"{archive.n_lattices / ours.cpu_s:.0f}", f"{archive.audio_s / ours.cpu_s:.0f}"]
    cells += [f"{ours.cpu_s:.2f}", f"{ours.wall_s:.2f}", f"{ours.max_rss_mib:.0f}"]
    for kaldi in runs[1:]:
        cells += [f"{kaldi.cpu_s:.2f}", f"{kaldi.wall_s:.2f}"]
        cells += [f"{kaldi.cpu_s / ours.cpu_s:.1f} x", f"{kaldi.wall_s / ours.wall_s:.1f} x"]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
