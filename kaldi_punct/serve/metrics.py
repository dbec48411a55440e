"""What a Prometheus server may ask the service; holds counts and times, never words."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from kaldi_punct.errors import ConfigError
from kaldi_punct.serve.batcher import Batcher, BatchReport

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "requests answered, by status code", ("code",))
        self.words = self._counter("words", "words punctuated")
        self.audio_s = self._counter("audio_seconds", "seconds of sound received")
        self.queue_s = self._histogram("queue_seconds", "from submission to the first batch", _SECONDS)
        self._inference_s = self._histogram("inference_seconds", "time of one batch in the model", _SECONDS)
        self._batch_examples = self._histogram("batch_examples", "examples in one batch", _SIZES)
        self._pieces = self._counter("batch_pieces", "pieces computed, without padding")
        self._padded_pieces = self._counter("batch_padded_pieces", "pieces computed, padding included")

    def on_batch(self, report: BatchReport) -> None:
        """Counts one batch."""
        self._inference_s.observe(report.inference_s)
        self._batch_examples.observe(report.n_examples)
        self._pieces.inc(report.n_pieces)
        self._padded_pieces.inc(report.n_padded_pieces)

    def watch(self, batcher: Batcher) -> None:
        """Shows the state of a batcher."""
        self._gauge("in_flight", "requests held, waiting or running", lambda: batcher.n_admitted)
        self._gauge("queue_requests", "requests with examples that no batch has taken yet", lambda: batcher.n_waiting)
        self._gauge("dropped_requests", "requests whose caller went away before the answer", lambda: batcher.n_dropped)

    def start_http(self, listen: str) -> None:
        """Serves the metrics on ``HOST:PORT``.

        Raises:
            ConfigError: not an address, or not free.
        """
        host, _, port = listen.rpartition(":")
        if not port.isdigit():
            raise ConfigError(f"metrics-listen: expected HOST:PORT, got {listen!r}; e.g. localhost:9090")
        try:
            start_http_server(int(port), host or "localhost", registry=self.registry)
        except (OSError, OverflowError) as e:
            reason = e.strerror if isinstance(e, OSError) else str(e)
            raise ConfigError(
                f"metrics-listen: expected a free address, got {listen!r} ({reason}); choose another"
            ) from e

    def _counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
        return Counter(f"kaldi_punct_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"kaldi_punct_{name}", text, buckets=buckets, registry=self.registry)

    def _gauge(self, name: str, text: str, read: Callable[[], int]) -> None:
        Gauge(f"kaldi_punct_{name}", text, registry=self.registry).set_function(read)
