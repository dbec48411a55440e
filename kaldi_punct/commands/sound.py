"""The sound of conversations, through ``wav.scp``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kaldi_punct.commands.sources import Item, side_table
from kaldi_punct.errors import FormatError, UtteranceError

if TYPE_CHECKING:
    from kaldi_punct.frames import FrameKind
    from kaldi_punct.precomputed import FrameTable
    from kaldi_punct.types import Audio
    from kaldi_punct.windows import Sound

log = logging.getLogger("kaldi_punct")


@dataclass(frozen=True, slots=True)
class SoundTable:
    """Where the sound of each recording is; empty if it is not used.

    Attributes:
        wav_scp: rxfilename of each recording.
        feats: frames that were computed before; they come first.
    """

    wav_scp: Mapping[str, str] = field(default_factory=dict)
    feats: FrameTable | None = None

    @classmethod
    def read(cls, table: str | None, hears: bool) -> SoundTable:
        """The table of an option.

        Args:
            table: ``wav.scp``; None if it was not given.
            hears: the model uses sound.
        """
        from kaldi_punct.kaldi.tables import read_wav_scp

        if table is None:
            if hears:
                log.info("the model hears, but there is no --wav-scp: it goes by the words alone")
            return cls()
        if not hears:
            log.warning("--wav-scp %s is not used: the model does not hear", table)
            return cls()
        return cls(side_table(table, read_wav_scp(table)))

    def with_feats(self, table: str | None, kind: FrameKind | None) -> SoundTable:
        """The same with the frames of ``--feats``.

        Args:
            table: script file of frames; None if it was not given.
            kind: what the model hears; None if it does not.

        Raises:
            FormatError: no such table, or frames that are not what the model hears.
        """
        from kaldi_punct.precomputed import FrameTable

        if table is None:
            return self
        if kind is None:
            log.warning("--feats %s is not used: the model does not hear", table)
            return self
        return SoundTable(self.wav_scp, FrameTable.read(table.removeprefix("scp:"), kind))

    def heard(self, item: Item) -> Audio | Sound | None:
        """The frames of an item's recording where they were computed before, else its sound.

        Raises:
            UtteranceError: no table has it, or it cannot be read.
        """
        if self.feats is None:
            return self.of(item)
        from kaldi_punct.windows import Sound

        utterance = item.utterance
        for key in (utterance.rec_id, utterance.utt_id):
            if key is not None and key in self.feats.entries:
                try:
                    frames = self.feats.frames(key, self.wav_scp.get(key))
                except FormatError as e:
                    raise UtteranceError(f"{utterance.utt_id}: {e}") from e
                assert frames is not None, "The table has the recording. This is a bug."
                return Sound(frames, self.feats.kind.frame_shift_s)
        if self.wav_scp:
            return self.of(item)
        raise UtteranceError(
            f"{utterance.utt_id}: expected its recording in --feats, got no entry; add it, or give --wav-scp beside it"
        )

    def of(self, item: Item) -> Audio | None:
        """The sound of an item's recording, on the clock of its words; None if no table was given.

        Raises:
            UtteranceError: the table lacks it, or it cannot be read.
        """
        if not self.wav_scp:
            return None
        from kaldi_punct.audio import read_audio
        from kaldi_punct.kaldi.tables import open_rxfilename

        utterance = item.utterance
        for key in (utterance.rec_id, utterance.utt_id):
            if key is not None and key in self.wav_scp:
                rx = self.wav_scp[key]
                try:
                    with open_rxfilename(rx) as stream:
                        return read_audio(stream, name=rx)
                except FormatError as e:
                    raise UtteranceError(f"{utterance.utt_id}: {e}") from e
        raise UtteranceError(
            f"{utterance.utt_id}: expected its recording in --wav-scp, got no entry; add it, or leave --wav-scp out"
        )

    def of_utterance(self, item: Item) -> Audio | None:
        """The part of the sound that belongs to one utterance: what a request sends.

        Raises:
            UtteranceError: as ``of``.
        """
        from kaldi_punct.audio import cut

        audio = self.of(item)
        utterance = item.utterance
        if audio is None or utterance.start_s is None:
            return audio
        return cut(audio, utterance.start_s, utterance.end_s)
