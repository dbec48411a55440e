"""One request -> the plan of a model; the model's results -> one response. Blocking work, meant for a thread pool.

Knows neither the transport nor the file system: a request's bytes are parsed here, and nothing that it names is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from kaldi_punct.errors import KaldiPunctError, ServeError
from kaldi_punct.kaldi import lattice
from kaldi_punct.serve import messages
from kaldi_punct.types import Audio, Hypothesis, Punctuated, Word
from kaldi_punct.v1 import punctuation_pb2 as pb

if TYPE_CHECKING:
    from kaldi_punct.plans import Plan
    from kaldi_punct.punctuator import Punctuator

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that was checked and cut into a model's examples.

    Attributes:
        request: as it came in.
        model: who answers it.
        plan: None if there are no words to punctuate.
        n_hypotheses: how many the request holds.
        audio_s: seconds of sound in it.
    """

    request: pb.PunctuateRequest
    model: Punctuator
    plan: Plan | None
    n_hypotheses: int = 1
    audio_s: float = 0.0

    @property
    def examples(self) -> Sequence[Any]:
        """What the model is to compute."""
        return () if self.plan is None else self.plan.examples


@dataclass(frozen=True, slots=True)
class RequestHandler:
    """Prepares requests and finishes responses.

    Attributes:
        models: by the names that clients may give; the default first.
        decoders: likewise.
    """

    models: Mapping[str, Punctuator]
    decoders: Mapping[str, lattice.Decoder]

    def prepare(self, request: pb.PunctuateRequest) -> Prepared:
        """Checks a request and cuts its words into examples.

        Raises:
            ServeError: a field is at fault; its dotted name is in the error.
        """
        field = request.WhichOneof("input")
        if field is None:
            raise messages.refusal("input", "one of transcript, nbest, lattice and text", "none", "set one of them")
        model = _pick(self.models, request.options.model, "options.model", "a model of this server")
        context = messages.words_from_proto(request.left_context, "left_context", check_order=False)
        audio = messages.audio_from_proto(request.audio) if request.HasField("audio") else None
        audio_s = 0.0 if audio is None else audio.duration_s
        try:
            if field == "nbest":
                return self._prepare_nbest(request, model, context, audio, audio_s)
            words = self._words(request, field)
            plan = model.plan(words, left_context=context, audio=audio) if words else None
            return Prepared(request, model, plan, audio_s=audio_s)
        except ServeError:
            raise
        except KaldiPunctError as e:
            raise ServeError(f"{field}: {e}", field) from e

    def finish(self, prepared: Prepared, results: list[Any]) -> pb.PunctuateResponse:
        """The response to a request, but for what only the queue knows."""
        request, options = prepared.request, prepared.request.options
        if prepared.plan is None:
            out = Punctuated(request.utt_id, (), (), n_hypotheses=prepared.n_hypotheses)
        else:
            out = prepared.model.finish(
                prepared.plan,
                results,
                utt_id=request.utt_id,
                punctuation=options.punctuation if options.HasField("punctuation") else True,
                capitalization=options.capitalization if options.HasField("capitalization") else True,
            )
        response = messages.punctuated_to_proto(out, label_probabilities=options.label_probabilities)
        response.info.model = prepared.model.info.name
        response.info.model_version = prepared.model.info.version
        return response

    def _prepare_nbest(
        self,
        request: pb.PunctuateRequest,
        model: Punctuator,
        context: tuple[Word, ...],
        audio: Audio | None,
        audio_s: float,
    ) -> Prepared:
        hyps = messages.hypotheses_from_proto(request.nbest)
        scale = self._nbest_scale(request.nbest, hyps)
        if not hyps[0].words:
            return Prepared(request, model, None, len(hyps), audio_s)
        plan = model.plan_fused(hyps, acoustic_scale=scale, left_context=context, audio=audio)
        return Prepared(request, model, plan, len(hyps), audio_s)

    def _nbest_scale(self, nbest: pb.NBest, hyps: tuple[Hypothesis, ...]) -> float | None:
        field = "nbest.acoustic_scale"
        decoder = None
        if nbest.decoder or self.decoders:
            decoder = _pick(self.decoders, nbest.decoder, "nbest.decoder", "a decoder of this server")
        if nbest.HasField("acoustic_scale"):
            messages.check_finite(nbest.acoustic_scale, field, minimum=0.0)
            return nbest.acoustic_scale
        if decoder is not None:
            return decoder.acoustic_scale
        if hyps[0].acoustic_cost is not None:
            raise messages.refusal(field, "a scale for the acoustic costs", "none, and this server has no decoder",
                                   "give the scale that the decoder used")  # fmt: skip
        return None

    def _words(self, request: pb.PunctuateRequest, field: str) -> tuple[Word, ...]:
        if field == "transcript":
            return messages.words_from_proto(request.transcript.words, "transcript.words")
        if field == "text":
            return messages.split_text(request.text)
        message = request.lattice
        decoder = _pick(self.decoders, message.decoder, "lattice.decoder", "a decoder of this server")
        messages.check_finite(message.acoustic_scale, "lattice.acoustic_scale", minimum=0.0)
        messages.check_finite(message.start_s, "lattice.start_s")
        scale = message.acoustic_scale if message.HasField("acoustic_scale") else None
        try:
            return decoder.best_path(lattice.parse(message.data), acoustic_scale=scale, start_s=message.start_s).words
        except KaldiPunctError as e:
            raise ServeError(f"lattice.data: {e}", "lattice.data") from e


def _pick(known: Mapping[str, T], name: str, field: str, what: str) -> T:
    """The named value, or the first one for an empty name."""
    if not name and known:
        return next(iter(known.values()))
    if name not in known:
        raise messages.refusal(field, f"{what} ({', '.join(known) or 'it has none'})", repr(name[:80]),
                               "ask GetInfo for the names")  # fmt: skip
    return known[name]
