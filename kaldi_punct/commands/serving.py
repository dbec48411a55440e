"""``serve`` and ``client``: the service over gRPC, and the same verb as ``punctuate`` against it."""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kaldi_punct.commands.batching import Answered
from kaldi_punct.commands.common import Tally, load_punctuator
from kaldi_punct.commands.conversations import conversations
from kaldi_punct.commands.options import add_device, add_verb, count
from kaldi_punct.commands.punctuate import add_input_options, kind_of, open_items, write_answers
from kaldi_punct.commands.sound import SoundTable
from kaldi_punct.commands.sources import Item, Tables
from kaldi_punct.errors import ConfigError

if TYPE_CHECKING:
    from kaldi_punct.commands.options import Verbs
    from kaldi_punct.types import Audio, Utterance


def add_verbs(verbs: Verbs) -> None:
    """Adds the parsers."""
    _add_serve(verbs)
    parser = add_verb(
        verbs,
        "client",
        "Punctuation and capitals by a running service",
        "kaldi-punct client --server localhost:50051 --segments egs/mini/segments egs/mini/kaldi/1best.ctm -",
        "Reads and writes what punctuate does. Each request takes the words before it in its conversation along.",
    )
    parser.add_argument("--server", required=True, metavar="H:P", help="host and port of the service")
    parser.add_argument("--model", default="", metavar="NAME", help="one of the server's models (default: its first)")
    parser.add_argument(
        "--in-flight", type=count, default=16, metavar="N", help="requests at a time (default %(default)s)"
    )
    add_input_options(parser)
    parser.set_defaults(run=run_client)


def run_serve(args: argparse.Namespace, tally: Tally) -> None:
    """Serves until it is told to stop."""
    from kaldi_punct.serve import ServeOptions, serve
    from kaldi_punct.serve.decoders import load_decoders

    tally.silent = True
    options = ServeOptions(
        listen=args.listen,
        max_batch_pieces=args.max_batch_pieces,
        max_requests=args.max_requests,
        max_message_bytes=args.max_message_mb << 20,
        n_threads=args.threads,
        grace_s=args.grace,
        metrics_listen=args.metrics,
    )
    decoders = load_decoders(args.decoder)
    models = {}
    for name in args.model or ["en"]:
        punctuator = load_punctuator(name, args.device)
        if punctuator.info.name in models:
            raise ConfigError(f"--model: expected each name once, got '{punctuator.info.name}' twice; leave one out")
        punctuator.load_hearing()
        models[punctuator.info.name] = punctuator
    serve(models, decoders, options)


def run_client(args: argparse.Namespace, tally: Tally) -> None:
    """Punctuates an input by a service."""
    from kaldi_punct.serve.client import Client, Switches, punctuate_all

    kind = kind_of(args)
    side = Tables.read(args)
    entries = open_items(args, kind, side)
    switches = Switches(args.model, not args.no_punctuation, not args.no_capitalization)
    with Client(args.server, switches=switches) as client:
        info = client.info()
        hears = next((m.hears for m in info.models if args.model in ("", m.name)), False)
        sound = SoundTable.read(args.wav_scp, hears)

        def answers(items: Iterator[Item]) -> Iterator[Answered]:
            waiting: deque[tuple[int, Item]] = deque()
            by_identity: dict[int, Item] = {}  # two utterances of an input may have the same key

            def groups() -> Iterator[Sequence[Utterance]]:
                for group in conversations(items, side.sizes()):
                    waiting.extend(group)
                    by_identity.update((id(item.utterance), item) for _, item in group)
                    yield [item.utterance for _, item in group]

            def audio(utterance: Utterance) -> Audio | None:
                return sound.of_utterance(by_identity[id(utterance)])

            for _, answer in punctuate_all(client, groups(), audio=audio, in_flight=args.in_flight):
                number, item = waiting.popleft()
                del by_identity[id(item.utterance)]
                yield number, item, answer

        write_answers(args, kind, side, entries, answers, tally)


def _add_serve(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "serve",
        "The service over gRPC",
        "kaldi-punct serve --listen localhost:50051 --decoder mini=egs/mini/decoder.yaml",
        "Runs until SIGTERM or SIGINT, then finishes what it has. grpc.health.v1 says when it is ready.",
    )
    parser.add_argument(
        "--listen",
        default="localhost:50051",
        metavar="H:P",
        help="address; port 0 takes a free one and logs it (default %(default)s)",
    )
    parser.add_argument(
        "--model",
        action="append",
        metavar="en|DIR",
        help="built-in model or model directory; may be repeated, the first is the default (en)",
    )
    add_device(parser)
    parser.add_argument(
        "--decoder",
        action="append",
        default=[],
        metavar="NAME=F.yaml",
        help="a Kaldi decoder whose lattices clients may send: words, transition_model, word_boundary (or "
        "align_lexicon), frame_shift_s, acoustic_scale; may be repeated, the first is the default",
    )
    parser.add_argument(
        "--max-batch-pieces",
        type=count,
        default=4096,
        metavar="N",
        help="padded pieces of one batch: more uses a GPU better, on a CPU little is gained (default %(default)s)",
    )
    parser.add_argument(
        "--max-requests",
        type=count,
        default=4096,
        metavar="N",
        help="requests held at once; one more is refused with RESOURCE_EXHAUSTED (default %(default)s)",
    )
    parser.add_argument(
        "--max-message-mb",
        type=count,
        default=64,
        metavar="N",
        help="longest request: 64 MB hold over an hour of 8 kHz sound (default %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=count,
        default=2,
        metavar="N",
        help="threads that prepare requests, beside those of the model (default %(default)s)",
    )
    parser.add_argument(
        "--grace",
        type=float,
        default=10.0,
        metavar="S",
        help="seconds that running requests may take when the service is told to stop (default %(default)s)",
    )
    parser.add_argument("--metrics", metavar="H:P", help="address of Prometheus metrics; none if not given")
    parser.set_defaults(run=run_serve)
