"""The main job, small: lattices of three calls through a live service, printed, scored. See scripts/demo."""

from __future__ import annotations

import argparse
import contextlib
import gzip
import itertools
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from kaldi_punct.audio import cut, read_audio
from kaldi_punct.errors import KaldiPunctError
from kaldi_punct.kaldi.tables import Segment, read_reco2file_and_channel, read_segments, read_wav_scp
from kaldi_punct.scoring import score
from kaldi_punct.serve import Client
from kaldi_punct.types import Punctuated, Word

REPO = Path(__file__).resolve().parent.parent
MINI = REPO / "egs" / "mini"
START_UP_S = 120.0
_FST_MAGIC = b"\xd6\xfd\xb2\x7e"  # how a binary lattice begins


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance of a call, answered."""

    call: str
    side: str  # channel of the call: A or B
    segment: Segment
    answer: Punctuated


def main() -> int:
    """Runs the demo; returns the exit status."""
    parser = argparse.ArgumentParser(description="Three calls through a live service.", epilog="e.g.: scripts/demo.py")
    parser.add_argument("--model", default="en", metavar="en|DIR", help="punctuation model (default %(default)s)")
    model = parser.parse_args().model
    with tempfile.TemporaryDirectory(prefix="kaldi_punct_demo.") as folder:
        log = Path(folder) / "server.log"
        try:
            with running_server(model, log) as address, Client(address) as client:
                turns = punctuate(client)
        except (KaldiPunctError, RuntimeError, OSError) as e:
            if log.exists():  # the server's side of what went wrong comes first
                sys.stderr.write(log.read_text(encoding="utf-8", errors="replace"))
            print(f"demo: {e}", file=sys.stderr)
            return 1
        show(turns)
        report(turns, Path(folder) / "text_punct")
    return 0


@contextlib.contextmanager
def running_server(model: str, log: Path) -> Iterator[str]:
    """A service of its own process on a free loopback port, ready to answer; stopped at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [sys.executable, "-m", "kaldi_punct.cli", "serve", "--model", model, "--listen", address]
    command += ["--decoder", f"mini={MINI / 'decoder.yaml'}"]
    with log.open("wb") as stderr:
        server = subprocess.Popen(command, stdout=stderr, stderr=stderr, cwd=REPO)
    try:
        wait_until_serving(server, address)
        yield address
    finally:
        server.terminate()
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_until_serving(server: subprocess.Popen[bytes], address: str) -> None:
    """Returns once the service's health is SERVING; raises RuntimeError if it ends or takes too long."""
    backoff = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 100)]
    deadline_s = time.perf_counter() + START_UP_S
    with grpc.insecure_channel(address, options=backoff) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        while time.perf_counter() < deadline_s:
            if server.poll() is not None:
                raise RuntimeError(f"the server ended with exit status {server.returncode}; its log is above")
            with contextlib.suppress(grpc.RpcError):  # not listening yet
                answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=1.0)
                if answer.status == health_pb2.HealthCheckResponse.SERVING:
                    return
            time.sleep(0.05)
    raise RuntimeError(f"the server was not SERVING within {START_UP_S:g} s; its log is above")


def punctuate(client: Client) -> list[Turn]:
    """Every utterance of the sample through the service, each with the words before it in its recording."""
    segments = {s.utt_id: s for s in read_segments(MINI / "segments")}
    sides = dict(read_reco2file_and_channel(MINI / "reco2file_and_channel"))
    wav_scp = dict(read_wav_scp(MINI / "wav.scp"))
    lattices = read_raw_lattices(segments)
    hears = client.info().models[0].hears
    turns = []
    in_time = sorted(segments.values(), key=lambda s: (s.rec_id, s.start_s))
    for rec_id, group in itertools.groupby(in_time, key=lambda s: s.rec_id):
        sound = read_audio(MINI / wav_scp[rec_id]) if hears else None
        before: tuple[Word, ...] = ()
        for segment in group:
            answer = client.punctuate_lattice(
                lattices[segment.utt_id],
                decoder="mini",
                start_s=segment.start_s,
                left_context=before,
                audio=None if sound is None else cut(sound, segment.start_s, segment.end_s),
                utt_id=segment.utt_id,
            )
            before += tuple(w.word for w in answer.words)
            turns.append(Turn(*sides[rec_id], segment, answer))
    return turns


def read_raw_lattices(utt_ids: Iterable[str]) -> dict[str, bytes]:
    """The bytes of each lattice, as they lie in the archives: what a decoding server has at hand."""
    lattices: dict[str, bytes] = {}
    for path in sorted((MINI / "decode").glob("lat.*.gz")):
        archive = gzip.decompress(path.read_bytes())
        starts = sorted((archive.find(f"{u} ".encode() + _FST_MAGIC), u) for u in utt_ids)
        starts = [(at, u) for at, u in starts if at >= 0]
        ends = [at for at, _ in starts[1:]] + [len(archive)]
        for (at, utt_id), end in zip(starts, ends, strict=True):
            lattices[utt_id] = archive[at + len(utt_id) + 1 : end]
    return lattices


def show(turns: list[Turn]) -> None:
    """Prints each call, both sides in order of time: as punctuated, over the decoder's words."""
    dim, plain = ("\x1b[2m", "\x1b[0m") if sys.stdout.isatty() else ("", "")
    width = min(shutil.get_terminal_size().columns, 120)
    in_time = sorted(turns, key=lambda t: (t.call, t.segment.start_s))
    for call, group in itertools.groupby(in_time, key=lambda t: t.call):
        print(f"\n{call}\n{'-' * len(call)}")
        for turn in group:
            clock = f"{turn.segment.start_s:6.2f} s  {turn.side}  "
            indent = " " * len(clock)
            print(textwrap.fill(turn.answer.text, width, initial_indent=clock, subsequent_indent=indent))
            raw = " ".join(w.word.word for w in turn.answer.words)
            print(dim + textwrap.fill(raw, width, initial_indent=indent, subsequent_indent=indent) + plain)


def report(turns: list[Turn], path: Path) -> None:
    """Scores the answers against the truth and prints the score."""
    lines = sorted(f"{t.segment.utt_id} {t.answer.text}\n" for t in turns)
    path.write_text("".join(lines), encoding="utf-8")
    n_words = sum(len(t.answer.words) for t in turns)
    used = ["the words"]
    used += ["their times"] if any(t.answer.used_times for t in turns) else []
    used += ["the sound"] if any(t.answer.used_audio for t in turns) else []
    print(f"\n{len(turns)} utterances, {n_words} words, punctuated from {', '.join(used)}.")
    print("Against what was said (marks are carried over where the decoder misheard):\n")
    print(score(ref=MINI / "text_punct", hyp=path))


if __name__ == "__main__":
    sys.exit(main())
