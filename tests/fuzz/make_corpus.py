"""Cuts seeds for the fuzzer out of real files: ``python tests/fuzz/make_corpus.py <out-dir> [<folder of archives>…]``.

Seeds are small, as a fuzzer needs them: lattices of at most a few kilobytes, models with a few phones. Those of
tests/data and egs/mini are always there; further folders are searched for ``lat*.ark``, ``lat*.gz`` and models.
"""

from __future__ import annotations

import gzip
import hashlib
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
REPO = TESTS.parent
sys.path[:0] = [str(TESTS), str(REPO)]

import lattice_maker as make  # noqa: E402

_MOST_BYTES = 6000
_MOST_MODEL_BYTES = 10_000  # a small real one is whole
_MAGIC = b"\xd6\xfd\xb2\x7e"
_MOST_OF_A_FOLDER = 40


def main() -> int:
    """Writes the seeds; returns the exit status."""
    if len(sys.argv) < 2:
        print((__doc__ or "").split("``")[1], file=sys.stderr)
        return 2
    out, folders = Path(sys.argv[1]), [Path(arg) for arg in sys.argv[2:]]
    seeds = toys() + [("value", value) for folder in (REPO / "egs" / "mini", *folders) for value in lattices(folder)]
    seeds += [("archive", b"utt-1 " + value) for kind, value in seeds if kind == "value"]
    for folder in (REPO / "egs" / "mini", *folders):
        seeds += [("word_boundary", p.read_bytes()[:_MOST_BYTES]) for p in folder.rglob("word_boundary.int")]
        seeds += [("align_lexicon", p.read_bytes()[:_MOST_BYTES]) for p in folder.rglob("align_lexicon.int")]
        seeds += [("transition_model", p.read_bytes()[:_MOST_MODEL_BYTES]) for p in folder.rglob("trans.mdl")]
    for kind, data in seeds:
        path = out / kind / hashlib.sha256(data).hexdigest()[:16]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    print(f"{len(seeds)} seeds in {out}", file=sys.stderr)
    return 0


def toys() -> list[tuple[str, bytes]]:
    """Lattices and models byte by byte, in every form there is."""
    seeds = [("value", form(toy)) for form in make.FORMS.values() for toy in (make.FORK, make.LINE)]
    seeds.append(("archive", b"".join(f"u{i} ".encode() + v for i, (_, v) in enumerate(seeds))))
    for write in (make.transition_model_binary, make.transition_model_text):
        seeds += [("transition_model", write()), ("transition_model", write(chain=False))]
        three = (((0, 1), (1, 2), (2, 3), ()),)  # the usual three states
        seeds.append(("transition_model", write(three, tuples=[(p, s, s) for p in range(1, 6) for s in range(3)])))
    seeds.append(("word_boundary", make.WORD_BOUNDARY))
    seeds.append(("align_lexicon", b"0 0 1\n4 4 1\n1 1 5\n2 2 2 4 3\n3 3 2 3\n"))
    return seeds


def lattices(folder: Path) -> list[bytes]:
    """Small values of the archives below a folder; of each archive the first few."""
    values = []
    for path in sorted({*folder.rglob("lat*.ark"), *folder.rglob("lat*.gz")}):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        found = binary_values(data) if _MAGIC in data else text_values(data)
        values += [value for value in found if 0 < len(value) <= _MOST_BYTES][:_MOST_OF_A_FOLDER]
    return values


def binary_values(archive: bytes) -> list[bytes]:
    """The values of an archive of binary lattices, cut where a key and the magic number follow."""
    starts, at = [], archive.find(_MAGIC)
    while at >= 0:
        starts.append(at)
        at = archive.find(_MAGIC, at + 4)
    return [
        archive[begin : end if end == len(archive) else archive.rfind(b"\x00", begin, end - 1) + 1 or end]
        for begin, end in zip(starts, [*starts[1:], len(archive)], strict=True)
    ]


def text_values(archive: bytes) -> list[bytes]:
    """The values of an archive of text lattices, each with the newline before and the empty line behind."""
    return [
        b"\n" + entry.partition(b"\n")[2] + b"\n\n" for entry in archive.split(b"\n\n") if b"\n" in entry.strip(b"\n")
    ]


if __name__ == "__main__":
    sys.exit(main())
