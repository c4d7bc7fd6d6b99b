"""What observers cost the event loop for each item: `python -m tests.bench.bench_telemetry`.

Does for an item what a session does, without the session. Processor time, so that neighbours count little. Measures;
checks nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from opentelemetry.sdk.trace import TracerProvider

from monopath_server.delivery.parts import TransportKind
from monopath_server.engine.items import CacheOutcome, Timings
from monopath_server.observer import Ended, Observer, StreamFacts, StreamWatch
from monopath_server.telemetry import spans
from monopath_server.telemetry.tally import Tally

ROUNDS = 7
ITEM_COUNT = 20_000
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TIMINGS = Timings(planning_ns=200_000, queued_ns=1_000_000, decoding_ns=9_000_000, transforming_ns=3_000_000)


def pass_item(watch: StreamWatch) -> None:
    """Tell of one item, from its acceptance to its end."""
    facts = watch.item(1, TRACEPARENT)
    if facts is not None:
        facts.receive(200_000, TransportKind.INLINE)
    if facts is not None:
        facts.planned_ns = time.perf_counter_ns()
        facts.token_count = 1000
    if facts is not None:
        facts.made_ns = time.perf_counter_ns()
        facts.timings = TIMINGS
        facts.cache = CacheOutcome.MISS
    if facts is not None:
        facts.send(1 << 20, TransportKind.INLINE)
    if facts is not None:
        watch.item_ended(facts, Ended.COMPLETED)


class _Kept(spans.SpanObserver):
    """Keeps what it is told, and makes no span of it meanwhile."""

    def _run(self) -> None:
        """Nothing, so that only the event loop's part is measured."""


def best_us(run: Callable[[], None], count: int) -> float:
    """The least microseconds of processor time that one of `count` runs took, of several rounds."""
    rounds: list[float] = []
    for _ in range(ROUNDS):
        started = time.process_time_ns()
        for _ in range(count):
            run()
        rounds.append((time.process_time_ns() - started) / count / 1e3)
    return min(rounds)


def main() -> None:
    """Print one line for each observer."""
    spans.MAX_WAITING_SPANS = ROUNDS * ITEM_COUNT
    kept = _Kept(TracerProvider(shutdown_on_exit=False))
    for name, observer in (("off", Observer()), ("metrics", Tally()), ("spans, on the event loop", kept)):
        watch = StreamWatch(observer, StreamFacts(1, "StreamDeferredCpu", "DEFERRED_CPU", "peer"))
        sys.stdout.write(f"{name:>28} {best_us(lambda watch=watch: pass_item(watch), ITEM_COUNT):8.2f} us\n")  # type: ignore[misc]
    stream, item = kept._ended.get() or (None, None)
    assert stream is not None
    assert item is not None
    made_us = best_us(lambda: kept._make(stream, item), 500)
    sys.stdout.write(f"{'spans, in their thread':>28} {made_us:8.2f} us\n")


if __name__ == "__main__":
    main()
