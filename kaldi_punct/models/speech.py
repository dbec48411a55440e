"""The frames of a frozen speech encoder as what a model hears: finding the encoder, keeping it, loading it late."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kaldi_punct.audio import resample
from kaldi_punct.config import ModelConfig
from kaldi_punct.errors import CheckpointError, ConfigError
from kaldi_punct.frames import FrameKind, FrameSource, KaldiFrames
from kaldi_punct.models import speech_encoders
from kaldi_punct.models.lexical import encoder_dir
from kaldi_punct.models.speech_encoders import Described, Encoder
from kaldi_punct.types import Audio

COPY_DIR = "speech"  # inside a model directory
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


class SpeechFrames:
    """Frames of a frozen speech encoder; its weights are loaded with the first sound, and are no part of a model's.

    Attributes:
        name: of the encoder, as ``ModelConfig.speech`` gives it.
        described: what it is.
        home: the model directory that it was trained for; None where it is new.
    """

    def __init__(self, name: str, described: Described, home: Path | None = None) -> None:
        self.name, self.described, self.home = name, described, home
        self._device = "cpu"
        self._encoder: Encoder | None = None
        self._lock = threading.Lock()  # a server hears in several threads
        self._copies: list[Path] = []

    @classmethod
    def of(cls, name: str, layer: int) -> SpeechFrames:
        """The frames of an encoder.

        Args:
            name: a directory, ``package:NAME/PATH`` or a Hugging Face hub name.
            layer: as ``speech_encoders.describe`` takes it.

        Raises:
            CheckpointError: nothing of that name, or no speech encoder.
            ConfigError: no such layer.
        """
        try:
            return cls(name, speech_encoders.describe(_find(name), layer))
        except CheckpointError as e:
            raise CheckpointError(f"model.speech: {e}") from e

    @classmethod
    def from_values(cls, values: Mapping[str, Any], home: Path) -> SpeechFrames:
        """The frames that ``values`` told of, for the model in a directory.

        Raises:
            KeyError, TypeError: values that are not whole.
        """
        others = {k: v for k, v in values.items() if k not in ("name", "kind")}
        return cls(values["name"], Described(kind=FrameKind(**values["kind"]), **others), home)

    def values(self) -> dict[str, Any]:
        """What a model directory tells of its encoder."""
        return {"name": self.name, **dataclasses.asdict(self.described)}

    @property
    def kind(self) -> FrameKind:
        """What the frames are."""
        return self.described.kind

    def use(self, device: str) -> None:
        """Says where to compute: "cpu", "cuda:0" …"""
        with self._lock:
            if device != self._device:
                self._device, self._encoder = device, None

    def load(self) -> None:
        """Loads the encoder now; else the first sound does.

        Raises:
            CheckpointError: it is not there, is another one than the model was trained with, or is broken.
        """
        self._loaded()

    def frames(self, audio: Audio) -> NDArray[np.float32]:
        """The frames of a sound of any sample rate and length; see ``FrameSource``."""
        samples = resample(audio, self.kind.sample_rate_hz).samples
        return speech_encoders.extract(self._loaded(), self.described, samples)

    def find(self) -> Path:
        """Where the encoder lies: its copy in the model directory, else where its name leads.

        Raises:
            CheckpointError: nowhere.
        """
        if self.home is None:
            return _find(self.name)
        copy = self._own_copy()
        if copy is not None:
            return copy
        try:
            return _find(self.name)
        except CheckpointError as e:
            place = self.home / COPY_DIR
            raise CheckpointError(
                f"{self.home}: expected its speech encoder in {place} or at {self.name!r}, got neither ({e}); copy the "
                f"encoder's directory to {place}"
            ) from e

    def save(self, model_dir: Path, copy: bool | None) -> None:
        """Copies the encoder into a model directory.

        Args:
            model_dir: the directory; a copy that is there already stays.
            copy: None for whatever is not on the hub, which needs no copy to be found again.
        """
        target = model_dir / COPY_DIR
        if copy is None:
            copy = self._own_copy() is not None or not _is_hub_name(self.name)
        if not copy or target in self._copies:
            return
        source = self.find()
        if source == target:
            return
        if not _is_copy(target, source):
            made = model_dir / f"{COPY_DIR}.tmp"
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir(parents=True)
            origin = self._copies[0] if self._copies else source
            for path in [*origin.glob("*.json"), *speech_encoders.weight_files(origin)]:
                _link_or_copy(path, made / path.name, link=origin is not source)
            shutil.rmtree(target, ignore_errors=True)
            os.replace(made, target)
        self._copies.append(target)

    def _own_copy(self) -> Path | None:
        copy = None if self.home is None else self.home / COPY_DIR
        return copy if copy is not None and (copy / "config.json").is_file() else None

    def _loaded(self) -> Encoder:
        with self._lock:
            if self._encoder is None:
                directory = self.find()
                found = speech_encoders.describe(directory, self.kind.layer)
                if found.kind != self.kind:
                    raise CheckpointError(
                        f"{directory}: expected the speech encoder that the model was trained with (weights of sha256 "
                        f"{self.kind.sha256[:12]}…), got another ({found.kind.sha256[:12]}…); put that one back"
                    )
                # A network is drawn at random before its weights are read: what is trained must not depend on when.
                with torch.random.fork_rng(devices=[]):
                    self._encoder = speech_encoders.load(directory, found, self._device)
            return self._encoder


def make_source(config: ModelConfig) -> FrameSource | None:
    """Where the frames of ``ModelConfig.acoustic`` come from; None for a model that does not hear.

    Raises:
        CheckpointError: no such speech encoder.
        ConfigError: no such layer, or an encoder that hears ahead in a model with a lookahead.
    """
    if config.acoustic == "none":
        return None
    if config.acoustic != "speech":
        return KaldiFrames(config.acoustic, config.sample_rate_hz)
    source = SpeechFrames.of(config.speech, config.speech_layer)
    if config.lookahead is not None and not source.described.causal:
        raise ConfigError(
            f"model.lookahead: expected null with model.speech {config.speech!r} ({source.described.model_type}), "
            "whose frames hear all of the sound; take a wav2vec of ours with norm 'frame', or melspec"
        )
    return source


def _find(name: str) -> Path:
    """The directory of an encoder."""
    directory = Path(encoder_dir(name))
    if (directory / "config.json").is_file():
        return directory
    if directory.is_dir():
        raise CheckpointError(f"{name}: expected a speech encoder's directory with config.json, got one without it")
    if not _is_hub_name(name):
        raise CheckpointError(
            f"{name}: expected a speech encoder's directory or a Hugging Face hub name, got neither; check the path "
            "(it is relative to the working directory)"
        )
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        found = Path(snapshot_download(name, allow_patterns=["*.json", "*.safetensors"]))
        if not speech_encoders.weight_files(found):
            found = Path(snapshot_download(name, allow_patterns=["*.json", "pytorch_model*.bin"]))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as e:
        reason = " ".join(str(e).split())
        raise CheckpointError(
            f"{name}: expected a speech encoder's directory or a Hugging Face hub name, got no such directory, and of "
            f"the hub: {reason}"
        ) from e
    return found


def _is_hub_name(name: str) -> bool:
    return _HUB_NAME.fullmatch(name) is not None and not Path(name).exists()


def _is_copy(target: Path, source: Path) -> bool:
    if not (target / "config.json").is_file():
        return False
    try:
        a, b = (speech_encoders.describe(d, -1).kind for d in (target, source))
    except CheckpointError:
        return False
    return a == b


def _link_or_copy(path: Path, to: Path, link: bool) -> None:
    """A second name for a file of ours, which is never written to again, else a copy."""
    if link:
        try:
            os.link(path, to)
        except OSError:
            pass
        else:
            return
    shutil.copyfile(path, to)
