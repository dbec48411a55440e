#!/usr/bin/env python3
"""Stores a trained model in 8 bits under a name, as the package ships it.

e.g.: local/export_model.py exp/en/best ../../kaldi_punct/builtin/en --name en --version 1
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kaldi_punct import checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--margin-words", type=int, help="context of windows, which may change after training")
    args = parser.parse_args()
    model = checkpoint.load(args.model)
    model.name, model.version = args.name, args.version
    if args.margin_words is not None:
        model.window.margin_words = args.margin_words
    checkpoint.save(model, args.out, quantise=True)
    size = sum(p.stat().st_size for p in args.out.iterdir())
    print(f"{args.out}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
