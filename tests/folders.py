"""Folders of text files."""

from __future__ import annotations

from pathlib import Path


def write(path: Path, *lines: str) -> Path:
    """Writes a file of lines, its folder too; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def contents(directory: Path) -> dict[str, str]:
    """Text of each file, by name."""
    return {p.name: p.read_text(encoding="utf-8") for p in directory.iterdir()}
