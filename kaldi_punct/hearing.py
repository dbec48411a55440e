"""Sound of a conversation -> the frames of it that a model hears, computed before or on the fly."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from kaldi_punct.audio import read_audio
from kaldi_punct.errors import UtteranceError
from kaldi_punct.frames import FrameSource
from kaldi_punct.kaldi.data_dir import Conversation, DataDir
from kaldi_punct.kaldi.streams import open_rxfilename
from kaldi_punct.precomputed import FrameTable
from kaldi_punct.types import Audio
from kaldi_punct.windows import Sound

log = logging.getLogger(__name__)
SoundReader = Callable[[Conversation], Sound | None]


def hear(audio: Audio | Sound, source: FrameSource, *, by_times: bool) -> Sound:
    """What a model hears of a sound, or of frames that were computed before.

    Args:
        audio: on the words' clock.
        source: where its frames come from.
        by_times: as ``Sound`` has it.

    Raises:
        CheckpointError: the speech encoder cannot be had.
        UtteranceError: frames of another kind.
    """
    kind = source.kind
    if isinstance(audio, Audio):
        return Sound(source.frames(audio), kind.frame_shift_s, audio.start_s, by_times=by_times)
    n_numbers, shift_s = audio.frames.shape[1], audio.frame_shift_s
    if n_numbers != kind.dim or abs(shift_s - kind.frame_shift_s) > 1e-9:
        raise UtteranceError(
            f"audio: expected frames of {kind.dim} numbers every {kind.frame_shift_s:g} s, got {n_numbers} every "
            f"{shift_s:g} s; make them for this model (kaldi-punct feats), or give the sound itself"
        )
    return replace(audio, by_times=by_times)


def sound_reader(data_dir: DataDir, source: FrameSource | None, *, by_times: bool) -> SoundReader | None:
    """Reads the frames of a conversation: those that were computed before where there are any, else by ``wav.scp``.

    Args:
        data_dir: with ``wav.scp``, or frames by ``kaldi-punct feats``.
        source: where frames come from; None for a model that does not hear.
        by_times: as ``Sound`` has it.

    Raises:
        FormatError: frames that were computed before, but are not what the model hears.
    """
    if source is None:
        return None
    table = FrameTable.find(data_dir.path, source.kind)
    if table is not None:
        log.info("%s: frames of %d recordings were computed before", table.path, len(table.entries))

    def read(conversation: Conversation) -> Sound | None:
        rxfilename = data_dir.wav_scp.get(conversation.rec_id)
        frames = None if table is None else table.frames(conversation.rec_id, rxfilename)
        if frames is not None:
            return Sound(frames, source.kind.frame_shift_s, by_times=by_times)
        if rxfilename is None:
            return None
        with open_rxfilename(rxfilename) as stream:
            return hear(read_audio(stream.read(), name=rxfilename), source, by_times=by_times)

    return read
