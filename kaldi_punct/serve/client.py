"""The client of the service: words, texts, lattices or N-best lists out, ``Punctuated`` back.

    with Client("localhost:50051") as client:
        print(client.punctuate("so what do you think".split()).text)

``punctuate_all`` sends whole conversations, several requests at a time.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import cast

import grpc
import numpy as np
import soundfile
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from numpy.typing import NDArray

from kaldi_punct.errors import KaldiPunctError, ServeError, UtteranceError
from kaldi_punct.serve import messages
from kaldi_punct.serve.addresses import check_address
from kaldi_punct.serve.batcher import OverloadedError
from kaldi_punct.types import Audio, Hypothesis, Punctuated, Utterance, Word, to_words
from kaldi_punct.v1 import punctuation_pb2 as pb
from kaldi_punct.v1 import punctuation_pb2_grpc as pb_grpc

Sound = Audio | bytes | NDArray[np.int16]

# Words of context that a request takes along: with them an utterance still fits into one window of the usual model.
LEFT_CONTEXT_WORDS = 64
IN_FLIGHT = 16
_LINEAR16_SCALE = 32768.0


@dataclass(frozen=True, slots=True)
class Switches:
    """What may be chosen for each request.

    Attributes:
        model: one of the server's; "" for its default.
        punctuation: False leaves all marks out.
        capitalization: False leaves the words as they came.
        label_probabilities: fill ``label_probs`` of each word.
    """

    model: str = ""
    punctuation: bool = True
    capitalization: bool = True
    label_probabilities: bool = False


class Client:
    """A connection to one server; may be used by many threads.

    Args:
        target: HOST:PORT.
        timeout_s: of one call; None waits for ever.
        switches: what applies to calls that do not bring their own.
    """

    def __init__(
        self, target: str = "localhost:50051", *, timeout_s: float | None = 300.0, switches: Switches | None = None
    ) -> None:
        self.target = check_address("server", target)
        self._timeout_s = timeout_s
        self._switches = switches or Switches()
        self._channel = grpc.insecure_channel(
            target, options=[("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        )
        self._stub = pb_grpc.PunctuationStub(self._channel)  # type: ignore[no-untyped-call]

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection."""
        self._channel.close()

    def stub(self) -> pb_grpc.PunctuationStub:
        """The generated stub, for what this class does not offer."""
        return self._stub

    def info(self) -> pb.GetInfoResponse:
        """What the server can do: models, decoders, limits.

        Raises:
            ServeError: the server cannot be reached.
        """
        return cast(pb.GetInfoResponse, self._call(self._stub.GetInfo, pb.GetInfoRequest()))

    def punctuate(
        self,
        words: Sequence[str | Word],
        *,
        audio: Sound | None = None,
        sample_rate_hz: int = 0,
        left_context: Sequence[str | Word] = (),
        utt_id: str = "",
        switches: Switches | None = None,
    ) -> Punctuated:
        """The words with marks and case.

        Args:
            words: of one utterance or a whole recording.
            audio: what was said: a record, 16-bit samples (bytes or an array; give ``sample_rate_hz``), or the bytes
                of a WAV, FLAC or OGG file (without ``sample_rate_hz``).
            sample_rate_hz: of raw samples.
            left_context: words just before these in the same conversation.
            utt_id: echoed.
            switches: instead of the client's own.

        Raises:
            OverloadedError: the server is full; try again later.
            ServeError: the server refuses (``field`` names what is at fault) or cannot be reached.
        """
        records = to_words(words)
        request = pb.PunctuateRequest(transcript=pb.Transcript(words=messages.words_to_proto(records)))
        out = self._punctuate(request, audio, sample_rate_hz, left_context, utt_id, switches)
        if len(out.words) != len(records):
            raise ServeError(f"{self.target}: expected {len(records)} words back, got {len(out.words)}. This is a bug.")
        # The wire holds confidences in 32 bits; the caller gets its own words back.
        own = (replace(answer, word=word) for answer, word in zip(out.words, records, strict=True))
        return replace(out, words=tuple(own))

    def punctuate_text(
        self,
        text: str,
        *,
        audio: Sound | None = None,
        sample_rate_hz: int = 0,
        left_context: Sequence[str | Word] = (),
        utt_id: str = "",
        switches: Switches | None = None,
    ) -> Punctuated:
        """As ``punctuate``, for words separated by ASCII blanks."""
        return self._punctuate(pb.PunctuateRequest(text=text), audio, sample_rate_hz, left_context, utt_id, switches)

    def punctuate_nbest(
        self,
        hypotheses: Sequence[Hypothesis],
        *,
        acoustic_scale: float | None = None,
        decoder: str = "",
        audio: Sound | None = None,
        sample_rate_hz: int = 0,
        left_context: Sequence[str | Word] = (),
        utt_id: str = "",
        switches: Switches | None = None,
    ) -> Punctuated:
        """As ``punctuate``, for hypotheses, best first; their marks are fused onto the first.

        Args:
            acoustic_scale: None for the decoder's.
            decoder: one of the server's; "" for its default.
        """
        nbest = pb.NBest(
            hypotheses=messages.hypotheses_to_proto(hypotheses), acoustic_scale=acoustic_scale, decoder=decoder
        )
        return self._punctuate(pb.PunctuateRequest(nbest=nbest), audio, sample_rate_hz, left_context, utt_id, switches)

    def punctuate_lattice(
        self,
        data: bytes,
        *,
        decoder: str = "",
        acoustic_scale: float | None = None,
        start_s: float = 0.0,
        audio: Sound | None = None,
        sample_rate_hz: int = 0,
        left_context: Sequence[str | Word] = (),
        utt_id: str = "",
        switches: Switches | None = None,
    ) -> Punctuated:
        """As ``punctuate``, for one value of a Kaldi lattice table; marks go onto its best path.

        Args:
            decoder: one of the server's; "" for its default.
            acoustic_scale: None for the decoder's.
            start_s: time of the lattice's first frame, seconds.
        """
        lattice = pb.Lattice(data=data, decoder=decoder, acoustic_scale=acoustic_scale, start_s=start_s)
        return self._punctuate(
            pb.PunctuateRequest(lattice=lattice), audio, sample_rate_hz, left_context, utt_id, switches
        )

    def _punctuate(
        self,
        request: pb.PunctuateRequest,
        audio: Sound | None,
        sample_rate_hz: int,
        left_context: Sequence[str | Word],
        utt_id: str,
        switches: Switches | None,
    ) -> Punctuated:
        chosen = switches or self._switches
        request.utt_id = utt_id
        request.left_context.extend(messages.words_to_proto(to_words(left_context)))
        if audio is not None:
            request.audio.CopyFrom(audio_to_proto(audio, sample_rate_hz))
        request.options.CopyFrom(
            pb.Options(
                model=chosen.model,
                punctuation=chosen.punctuation,
                capitalization=chosen.capitalization,
                label_probabilities=chosen.label_probabilities,
            )
        )
        return messages.punctuated_from_proto(cast(pb.PunctuateResponse, self._call(self._stub.Punctuate, request)))

    def _call(self, method: Callable[..., object], request: object) -> object:
        try:
            return method(request, timeout=self._timeout_s)
        except grpc.RpcError as e:
            raise _translate(e, self.target) from e


def punctuate_all(
    client: Client,
    conversations: Iterable[Sequence[Utterance]],
    *,
    audio: Callable[[Utterance], Audio | None] | None = None,
    in_flight: int = IN_FLIGHT,
    left_context_words: int = LEFT_CONTEXT_WORDS,
) -> Iterator[tuple[str, Punctuated | KaldiPunctError]]:
    """(utt_id, answer or error) of every utterance, in order, with some requests in flight at a time.

    Each request takes along the words before it in its conversation.

    Args:
        client: an open client; its switches apply.
        conversations: utterances of one recording and channel each, in time order; read lazily.
        audio: what was said in an utterance, on its words' clock; called in the client's threads. A KaldiPunctError or
            OSError that it raises is the utterance's.
        in_flight: requests at a time.
        left_context_words: how many words before an utterance go with it.
    """

    def send(utterance: Utterance, before: tuple[Word, ...]) -> Punctuated | KaldiPunctError:
        try:
            sound = None if audio is None else audio(utterance)
            return client.punctuate(utterance.words, audio=sound, left_context=before, utt_id=utterance.utt_id)
        except KaldiPunctError as e:
            return e
        except OSError as e:
            return UtteranceError(f"{utterance.utt_id}: expected its audio, got: {e}")

    with ThreadPoolExecutor(in_flight, thread_name_prefix="client") as pool:
        waiting: deque[tuple[str, Future[Punctuated | KaldiPunctError]]] = deque()
        try:
            for conversation in conversations:
                before: tuple[Word, ...] = ()
                for utterance in conversation:
                    waiting.append((utterance.utt_id, pool.submit(send, utterance, before)))
                    before = (*before, *utterance.words)
                    before = before[max(len(before) - left_context_words, 0) :]
                    # Twice as many as in flight: the threads have work while the oldest answer is awaited.
                    while len(waiting) > 2 * in_flight or (waiting and waiting[0][1].done()):
                        utt_id, oldest = waiting.popleft()
                        yield utt_id, oldest.result()
            while waiting:
                utt_id, oldest = waiting.popleft()
                yield utt_id, oldest.result()
        finally:
            for _, job in waiting:
                job.cancel()


def audio_to_proto(audio: Sound, sample_rate_hz: int = 0) -> pb.Audio:
    """Sound for the wire, without loss: as 16-bit samples where they hold it, else as a WAV file of floats.

    Raises:
        ServeError: an array without its sample rate.
    """
    if isinstance(audio, bytes):
        encoding = pb.Audio.ENCODING_LINEAR16 if sample_rate_hz else pb.Audio.ENCODING_FILE
        return pb.Audio(data=audio, encoding=encoding, sample_rate_hz=sample_rate_hz)
    if not isinstance(audio, Audio):
        if audio.dtype != np.int16 or audio.ndim != 1 or sample_rate_hz <= 0:
            got = f"{audio.dtype} of shape {audio.shape} with sample_rate_hz={sample_rate_hz}"
            raise messages.refusal("audio", "int16 samples (n,) with sample_rate_hz", got, "or give a types.Audio")
        return pb.Audio(
            data=audio.astype("<i2").tobytes(), encoding=pb.Audio.ENCODING_LINEAR16, sample_rate_hz=sample_rate_hz
        )
    scaled = audio.samples * np.float32(_LINEAR16_SCALE)
    if np.array_equal(scaled, np.clip(np.rint(scaled), -_LINEAR16_SCALE, _LINEAR16_SCALE - 1)):
        return pb.Audio(data=scaled.astype("<i2").tobytes(), encoding=pb.Audio.ENCODING_LINEAR16,
                        sample_rate_hz=audio.sample_rate_hz, start_s=audio.start_s)  # fmt: skip
    file = io.BytesIO()
    soundfile.write(file, audio.samples, audio.sample_rate_hz, format="WAV", subtype="FLOAT")
    return pb.Audio(data=file.getvalue(), encoding=pb.Audio.ENCODING_FILE, start_s=audio.start_s)


def _translate(error: grpc.RpcError, target: str) -> ServeError:
    """The error that a failed call means."""
    call = cast(grpc.Call, error)
    code, text = call.code(), call.details() or ""
    if code == grpc.StatusCode.UNAVAILABLE:
        return ServeError(f"{target}: expected a running server, got none ({text}); start one with kaldi-punct serve")
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
        return OverloadedError(text)
    field = ""
    status = rpc_status.from_call(call)
    for packed in status.details if status is not None else ():
        detail = error_details_pb2.BadRequest()
        if packed.Unpack(detail) and detail.field_violations:
            field = detail.field_violations[0].field
    if code == grpc.StatusCode.INVALID_ARGUMENT:
        return ServeError(text, field)
    return ServeError(f"{target}: {code.name}: {text}", field)
