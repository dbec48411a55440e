"""How many requests a second a running service answers, and how long each takes.

    kaldi-punct serve &
    python benchmarks/serve.py --server localhost:50051 --requests 2000 --concurrency 64 --words 20

Every answer is checked to be the one to its own request.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from kaldi_punct.serve.client import Client

VOCABULARY = ("so", "what", "do", "you", "think", "about", "the", "river", "i", "would", "say", "that", "it", "far")


def main() -> int:
    """Runs the benchmark; exit status 1 if an answer was lost or mixed up."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="localhost:50051", help="host and port (default %(default)s)")
    parser.add_argument("--requests", type=int, default=2000, help="how many (default %(default)s)")
    parser.add_argument("--concurrency", type=int, default=64, help="callers at a time (default %(default)s)")
    parser.add_argument("--words", type=int, default=20, help="longest request; lengths are even (default %(default)s)")
    args = parser.parse_args()

    generator = random.Random(1)
    texts = [
        [generator.choice(VOCABULARY) for _ in range(generator.randint(1, args.words))] for _ in range(args.requests)
    ]
    latencies_s: list[float] = []
    lock = threading.Lock()
    with Client(args.server) as client:
        client.punctuate(texts[0])

        def call(number: int) -> bool:
            began_s = time.perf_counter()
            answer = client.punctuate(texts[number], utt_id=str(number))
            with lock:
                latencies_s.append(time.perf_counter() - began_s)
            return answer.utt_id == str(number) and [w.word.word for w in answer.words] == texts[number]

        began_s = time.perf_counter()
        with ThreadPoolExecutor(args.concurrency) as pool:
            right = sum(pool.map(call, range(args.requests)))
        wall_s = time.perf_counter() - began_s
    cuts_ms = [1000 * s for s in statistics.quantiles(latencies_s, n=100)]
    n_words = sum(map(len, texts))
    print(f"{right} of {args.requests} right, {args.requests / wall_s:.0f} requests/s, {n_words / wall_s:.0f} words/s")
    print(f"latency ms: p50 {cuts_ms[49]:.0f}, p90 {cuts_ms[89]:.0f}, p99 {cuts_ms[98]:.0f}")
    return 0 if right == args.requests else 1


if __name__ == "__main__":
    sys.exit(main())
