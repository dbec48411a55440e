"""What each process of tests/test_processes.py runs: a whole training, one that breaks off, and its end."""

from __future__ import annotations

import sys
from pathlib import Path

from kaldi_punct import cli
from kaldi_punct.config import Config
from kaldi_punct.training import train
from kaldi_punct.updates import Updater


class BrokenOffError(Exception):
    """Stands for a kill."""


def main() -> None:
    data, config, whole, cut = sys.argv[1:]
    assert cli.main(["train", "--config", config, data, data, whole]) == 0
    update = Updater.update

    def break_off(self: Updater, batches: object, step: int) -> float:
        if step == 5:
            raise BrokenOffError
        return update(self, batches, step)  # type: ignore[arg-type]

    Updater.update = break_off  # type: ignore[method-assign]
    try:
        train(data, data, cut, Config.load(config))
    except BrokenOffError:
        assert (Path(cut) / "last" / "state.pt").is_file()
        sys.stdout.write("broken off\n")
    Updater.update = update  # type: ignore[method-assign]
    train(data, data, cut, Config.load(config))


if __name__ == "__main__":
    main()
