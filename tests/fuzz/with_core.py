"""Runs pytest with another build of the native core: ``python tests/fuzz/with_core.py <_core.so> <pytest argument>…``.

It takes the place of the installed one, whatever import hooks an editable install has set up.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


def main() -> int:
    """Runs the tests; returns pytest's exit status."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    name = "kaldi_punct._core"
    spec = importlib.util.spec_from_file_location(name, sys.argv[1])
    assert spec is not None, sys.argv[1]
    assert spec.loader is not None, sys.argv[1]
    core = importlib.util.module_from_spec(spec)
    sys.modules[name] = core
    spec.loader.exec_module(core)
    return pytest.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
