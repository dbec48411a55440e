"""CTMs on the recording's clock, as utils/convert_ctm.pl makes them of ``segments`` and ``reco2file_and_channel``."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kaldi_punct.errors import UtteranceError
from kaldi_punct.kaldi.ctm import CtmLine
from kaldi_punct.kaldi.tables import Segment

_LOG = logging.getLogger(__name__)
_SLACK_S = 0.01  # a word may pass the segment's end by a frame


@dataclass(frozen=True, slots=True)
class RecordingClock:
    """Where utterances lie in recordings, and how a CTM names those.

    Attributes:
        segments: by utterance.
        channels: (file, channel) by recording; None: a recording is named by its id, and lines keep their channel.
        segments_name: of the first table, for errors.
        channels_name: of the second.
    """

    segments: Mapping[str, Segment]
    channels: Mapping[str, tuple[str, str]] | None = None
    segments_name: str = "segments"
    channels_name: str = "reco2file_and_channel"


def to_recording(lines: Sequence[CtmLine], clock: RecordingClock) -> list[CtmLine]:
    """The lines of one utterance, keyed by file and channel, times counted from the start of the recording.

    Times are rounded to the two decimals of a CTM before they are moved, as they are for convert_ctm.pl. Words that
    pass the end of their segment stay, and are logged.

    Args:
        lines: keyed by utterance, times from its start.
        clock: where the utterance lies.

    Raises:
        UtteranceError: the utterance is in no segment, or its recording has no file and channel.
    """
    if not lines:
        return []
    utt_id = lines[0].rec_id
    segment, (file, channel) = _place(utt_id, lines[0].channel, clock)
    out = [
        replace(
            line,
            rec_id=file,
            channel=channel,
            start_s=round(line.start_s, 2) + segment.start_s,
            duration_s=round(line.duration_s, 2),
            raw="",
        )
        for line in lines
    ]
    end_s = segment.end_s
    n_late = 0 if end_s is None else sum(w.start_s + w.duration_s > end_s + _SLACK_S + 1e-9 for w in out)
    if n_late:
        _LOG.warning("%s: %d words pass the end of the segment, %g s", utt_id, n_late, end_s)
    return out


def _place(utt_id: str, channel: str, clock: RecordingClock) -> tuple[Segment, tuple[str, str]]:
    segment = clock.segments.get(utt_id)
    if segment is None:
        raise UtteranceError(
            f"{clock.segments_name}: expected a line of utterance '{utt_id}', got none; "
            "are these the segments of the decoded data?"
        )
    if clock.channels is None:
        return segment, (segment.rec_id, channel)
    place = clock.channels.get(segment.rec_id)
    if place is None:
        raise UtteranceError(
            f"{clock.channels_name}: expected a line of recording '{segment.rec_id}' (utterance '{utt_id}'), got none; "
            "add '<recording-id> <file> <channel>'"
        )
    return segment, place
