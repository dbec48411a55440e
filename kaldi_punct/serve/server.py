"""The gRPC service: health first, then warm-up, then SERVING; on SIGTERM or SIGINT it drains and ends.

Words that clients send are never logged, not even where something goes wrong.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import logging
import signal
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeVar

import grpc
import grpc.aio
from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from grpc_status import rpc_status

from kaldi_punct.errors import ConfigError, FormatError, ServeError, UtteranceError
from kaldi_punct.kaldi.lattice import Decoder
from kaldi_punct.serve.addresses import check_address
from kaldi_punct.serve.batcher import Batcher, ClosedError, OverloadedError
from kaldi_punct.serve.last_answers import LastAnswers
from kaldi_punct.serve.metrics import Metrics
from kaldi_punct.serve.requests import RequestHandler
from kaldi_punct.types import Word
from kaldi_punct.v1 import punctuation_pb2 as pb
from kaldi_punct.v1 import punctuation_pb2_grpc as pb_grpc

if TYPE_CHECKING:
    from kaldi_punct.punctuator import Punctuator

    Context = grpc.aio.ServicerContext[pb.PunctuateRequest, pb.PunctuateResponse]

T = TypeVar("T")
log = logging.getLogger("kaldi_punct")

SERVICE_NAME = pb.DESCRIPTOR.services_by_name["Punctuation"].full_name
_WARM_UP_WORDS = 400  # more than a window, so that the longest example is seen
_MAX_DETAIL_CHARS = 1000  # gRPC sends an error's text as a header, and headers are small
_INTERNAL = "the server failed; its log says where. This is a bug."
# The first row that fits decides; anything else is a fault of ours.
_CODES: tuple[tuple[type[Exception], int], ...] = (
    (OverloadedError, code_pb2.RESOURCE_EXHAUSTED),
    (ClosedError, code_pb2.UNAVAILABLE),
    (ServeError, code_pb2.INVALID_ARGUMENT),
    (FormatError, code_pb2.INVALID_ARGUMENT),
    (UtteranceError, code_pb2.INVALID_ARGUMENT),
)


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """How the service runs.

    Attributes:
        listen: HOST:PORT; port 0 takes a free one, and the log says which.
        max_batch_pieces: padded pieces in one batch. Larger batches use a GPU better; on a CPU little is gained above
            some windows' worth, and a request waits at most for the batch before its own.
        max_requests: requests held at once, waiting or running; one more is answered RESOURCE_EXHAUSTED at once. Must
            cover the callers that are expected together; each costs its message in memory.
        max_message_bytes: longest request. Two bytes a sample, 64 MiB hold over an hour of 8 kHz sound.
        n_threads: threads that prepare requests and finish answers; not those of the model.
        grace_s: how long running requests may take once the service is asked to stop, seconds.
        metrics_listen: HOST:PORT for Prometheus; None for no metrics.
    """

    listen: str = "localhost:50051"
    max_batch_pieces: int = 4096
    max_requests: int = 4096
    max_message_bytes: int = 64 << 20
    n_threads: int = 2
    grace_s: float = 10.0
    metrics_listen: str | None = None

    def __post_init__(self) -> None:
        check_address("listen", self.listen)
        for name in ("max_batch_pieces", "max_requests", "max_message_bytes", "n_threads"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.max_message_bytes >= 1 << 31:
            raise ConfigError(f"max_message_bytes: expected less than 2048 MiB, got {self.max_message_bytes >> 20} MiB")
        if not 0 <= self.grace_s < float("inf"):
            raise ConfigError(f"grace_s: expected seconds, 0 or more, got {self.grace_s}")


def serve(
    models: Mapping[str, Punctuator],
    decoders: Mapping[str, Decoder] | None = None,
    options: ServeOptions | None = None,
    *,
    on_ready: Callable[[int], None] | None = None,
) -> None:
    """Serves until SIGTERM or SIGINT, then drains.

    Args:
        models: by name; the default first.
        decoders: by name; the default first.
        options: how to run.
        on_ready: told the port once requests are served.

    Raises:
        ConfigError: an address that is not free, or options that do not suit a model.
    """
    asyncio.run(_serve(models, decoders or {}, options or ServeOptions(), on_ready))


async def _serve(
    models: Mapping[str, Punctuator],
    decoders: Mapping[str, Decoder],
    options: ServeOptions,
    on_ready: Callable[[int], None] | None,
) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    server = Server(models, decoders, options)
    try:
        await server.start()
        if on_ready is not None:
            on_ready(server.port)
        await stopping.wait()
        log.info("stopping: new requests are refused, running ones have %g s", options.grace_s)
    finally:
        await server.stop()
        log.info("stopped")


class Server:
    """One service on one port, within a running event loop.

    Args:
        models: by name; the default first.
        decoders: by name; the default first.
        options: how to run.
    """

    def __init__(
        self, models: Mapping[str, Punctuator], decoders: Mapping[str, Decoder], options: ServeOptions
    ) -> None:
        if not models:
            raise ConfigError("model: expected at least one model, got none; name one with --model")
        self.port = 0
        self._options = options
        self._models = models
        self._metrics = Metrics()
        self._batcher = Batcher(options.max_batch_pieces, options.max_requests, self._metrics.on_batch)
        self._metrics.watch(self._batcher)
        self._pool = ThreadPoolExecutor(options.n_threads, thread_name_prefix="prepare")
        self._health = health.aio.HealthServicer()  # type: ignore[attr-defined]
        # By default gRPC cancels calls at random once 1000 wait for the loop, and those that wait for 30 s.
        # Who is refused, and with which status, is the batcher's to say.
        n_pending = 2 * max(options.max_requests, 1000)
        limits = [
            ("grpc.server.max_pending_requests", n_pending),
            ("grpc.server.max_pending_requests_hard_limit", n_pending),
            ("grpc.server_max_unrequested_time_in_server", 600),
            ("grpc.max_receive_message_length", options.max_message_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),  # else a second server would take half of the first one's callers, silently
        ]
        self._last_answers = LastAnswers()
        self._server = grpc.aio.server(options=limits, interceptors=[self._last_answers])
        service = _Service(RequestHandler(models, decoders), self._batcher, self._pool, self._metrics, options)
        pb_grpc.add_PunctuationServicer_to_server(service, self._server)  # type: ignore[no-untyped-call]
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection((SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)

    async def start(self) -> None:
        """Listens, warms the models up, and only then reports SERVING.

        Raises:
            ConfigError: an address that is not free, or a batch budget below a model's window.
        """
        listen = self._options.listen
        try:
            self.port = self._server.add_insecure_port(listen)
        except RuntimeError as e:
            raise ConfigError(f"listen: expected a free HOST:PORT, got {listen!r}; choose another port") from e
        if self._options.metrics_listen is not None:
            self._metrics.start_http(self._options.metrics_listen)
        await self._set_health(health_pb2.HealthCheckResponse.NOT_SERVING)
        await self._server.start()
        for name, model in self._models.items():
            await self._warm_up(name, model)
        await self._set_health(health_pb2.HealthCheckResponse.SERVING)
        log.info("serving %s on %s:%d", ", ".join(self._models), listen.rpartition(":")[0], self.port)

    async def stop(self) -> None:
        """Refuses what is new, lets what runs end within the grace, and frees the threads."""
        await self._health.enter_graceful_shutdown()
        await self._last_answers.begin()
        await self._server.stop(self._options.grace_s)
        await self._batcher.close()
        self._pool.shutdown()

    async def _set_health(self, status: health_pb2.HealthCheckResponse.ServingStatus.ValueType) -> None:
        for name in ("", SERVICE_NAME):
            await self._health.set(name, status)

    async def _warm_up(self, name: str, model: Punctuator) -> None:
        words = [Word("hello")] * _WARM_UP_WORDS
        plan = await asyncio.get_running_loop().run_in_executor(self._pool, model.plan, words)
        longest = max((e.n_pieces for e in plan.examples), default=0)
        if longest > self._options.max_batch_pieces:
            raise ConfigError(f"max_batch_pieces: expected at least {longest}, a window of model {name!r}, "
                              f"got {self._options.max_batch_pieces}")  # fmt: skip
        await self._batcher.submit(model.infer, plan.examples)


class _Service(pb_grpc.PunctuationServicer):
    """The two calls of the proto."""

    def __init__(
        self,
        handler: RequestHandler,
        batcher: Batcher,
        pool: ThreadPoolExecutor,
        metrics: Metrics,
        options: ServeOptions,
    ) -> None:
        self._handler = handler
        self._batcher = batcher
        self._pool = pool
        self._metrics = metrics
        self._options = options

    async def Punctuate(self, request: pb.PunctuateRequest, context: Context) -> pb.PunctuateResponse:  # noqa: N802
        """See the proto."""
        try:
            with self._batcher.admit():
                response = await self._answer(request)
        except Exception as e:  # the one place where every error becomes a status
            status = _status(e)
            self._metrics.requests.labels(code_pb2.Code.Name(status.code)).inc()
            await _abort(context, status)
        except asyncio.CancelledError:
            self._metrics.requests.labels("CANCELLED").inc()
            raise
        self._metrics.requests.labels("OK").inc()
        return response

    async def GetInfo(self, request: pb.GetInfoRequest, context: object) -> pb.GetInfoResponse:  # noqa: ARG002, N802
        """See the proto."""
        models = [
            pb.ModelInfo(
                name=name,
                version=m.info.version,
                language=m.info.language,
                marks=m.info.marks,
                hears=m.info.hears,
                uses_times=m.info.uses_times,
            )
            for name, m in self._handler.models.items()
        ]
        return pb.GetInfoResponse(
            version=_version(),
            models=models,
            decoders=list(self._handler.decoders),
            max_message_bytes=self._options.max_message_bytes,
        )

    async def _answer(self, request: pb.PunctuateRequest) -> pb.PunctuateResponse:
        loop = asyncio.get_running_loop()
        prepared = await loop.run_in_executor(self._pool, self._handler.prepare, request)
        answer = await self._batcher.submit(prepared.model.infer, prepared.examples)
        response = await loop.run_in_executor(self._pool, self._handler.finish, prepared, answer.results)
        response.info.queue_ms = answer.queue_s * 1000
        response.info.inference_ms = answer.inference_s * 1000
        self._metrics.queue_s.observe(answer.queue_s)
        self._metrics.words.inc(len(response.words))
        self._metrics.audio_s.inc(prepared.audio_s)
        return response


def _version() -> str:
    try:
        return importlib.metadata.version("kaldi-punct")
    except importlib.metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"


def _status(error: Exception) -> status_pb2.Status:
    """The status that an error is answered with."""
    code = next((code for kind, code in _CODES if isinstance(error, kind)), None)
    if code is None:
        # The error's own text may hold words of the request, so only its kind and place are logged.
        place = "".join(traceback.format_tb(error.__traceback__))
        log.error("a request failed: %s\n%s", type(error).__name__, place)
        return status_pb2.Status(code=code_pb2.INTERNAL, message=_INTERNAL)
    status = status_pb2.Status(code=code, message=str(error)[:_MAX_DETAIL_CHARS])
    field = error.field if isinstance(error, ServeError) else ""
    if field:
        violation = error_details_pb2.BadRequest.FieldViolation(field=field, description=status.message)
        _add_detail(status, error_details_pb2.BadRequest(field_violations=[violation]))
    if code == code_pb2.RESOURCE_EXHAUSTED:
        _add_detail(status, error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=1)))
    return status


def _add_detail(status: status_pb2.Status, detail: error_details_pb2.BadRequest | error_details_pb2.RetryInfo) -> None:
    packed = any_pb2.Any()
    packed.Pack(detail)
    status.details.append(packed)


async def _abort(context: Context, status: status_pb2.Status) -> NoReturn:
    converted = rpc_status.to_status(status)
    await context.abort(converted.code, converted.details, converted.trailing_metadata)
    raise AssertionError("abort returned. This is a bug.")
