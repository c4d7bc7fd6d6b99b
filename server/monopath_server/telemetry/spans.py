"""OpenTelemetry: a span of each item, under the trace that its client named, with a child for each stage.

A span is made when its item is over, from the times that were noted on the way, and in a thread of its own: it takes
the library longer than a small image may take the event loop. A `traceparent` that is none begins a trace of its own,
as W3C says.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import monopath_server
from monopath_server.faults import ItemReason
from monopath_server.observer import ItemFacts, Observer, StreamFacts

__all__ = ["SpanObserver", "otlp_observer"]

MAX_WAITING_SPANS = 4096
"""Items beyond are left out of the traces."""
SENDING_SECONDS = 2.0
"""How long a server that stops waits for the collector."""
logger = logging.getLogger(__name__)
_PROPAGATOR = TraceContextTextMapPropagator()


def otlp_observer(endpoint: str) -> SpanObserver:
    """Send spans to a collector. What `OTEL_*` variables say of names, samplers, headers and batches holds."""
    own = Resource.create({"service.name": "monopath", "service.version": monopath_server.__version__})
    provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=endpoint)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return SpanObserver(provider, exporter.shutdown)


class SpanObserver(Observer):
    """Makes the spans."""

    watches_items = True

    def __init__(self, provider: TracerProvider, give_up: Callable[[], None] = lambda: None) -> None:
        """`give_up` has whatever is being sent dropped."""
        self._provider = provider
        self._give_up = give_up
        self._tracer = provider.get_tracer("monopath", monopath_server.__version__)
        self._ended: queue.SimpleQueue[tuple[StreamFacts, ItemFacts] | None] = queue.SimpleQueue()
        self._has_dropped = False
        self._thread = threading.Thread(target=self._run, name="monopath-spans", daemon=True)
        self._thread.start()

    def item_ended(self, stream: StreamFacts, item: ItemFacts, /) -> None:
        if self._ended.qsize() < MAX_WAITING_SPANS:
            self._ended.put((stream, item))
        elif not self._has_dropped:
            self._has_dropped = True
            logger.warning("Items end faster than spans are made: some are left out of the traces from now on")

    def close(self) -> None:
        """Make and send what is left, within a bound. Not for the event loop."""
        self._ended.put(None)
        self._thread.join()
        # The library would try for half a minute to reach a collector that is gone.
        impatience = threading.Timer(SENDING_SECONDS, self._give_up)
        impatience.start()
        self._provider.shutdown()
        impatience.cancel()

    def _run(self) -> None:
        while (ended := self._ended.get()) is not None:
            try:
                self._make(*ended)
            except Exception as error:
                logger.error("A span could not be made", exc_info=error)

    def _make(self, stream: StreamFacts, item: ItemFacts) -> None:
        # Spans have the wall clock's time, stages have a clock's that never jumps.
        epoch_ns = time.time_ns() - time.perf_counter_ns()
        parent = _PROPAGATOR.extract({"traceparent": item.traceparent}, Context())
        span = self._tracer.start_span(
            f"preprocess {stream.path}", parent, SpanKind.SERVER, start_time=item.accepted_ns + epoch_ns
        )
        if span.is_recording():
            span.set_attributes(_attributes(stream, item))
            if isinstance(item.ending, ItemReason) and item.ending is not ItemReason.CANCELLED:
                span.set_status(Status(StatusCode.ERROR, item.ending.name))
            inside = set_span_in_context(span, Context())
            for name, start_ns, end_ns in _stages(item):
                stage = self._tracer.start_span(name, inside, start_time=start_ns + epoch_ns)
                stage.end(end_ns + epoch_ns)
        span.end(item.ended_ns + epoch_ns)


def _attributes(stream: StreamFacts, item: ItemFacts) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "monopath.path": stream.path,
        "monopath.stream_id": stream.id,
        "monopath.item_id": item.id,
        "monopath.outcome": "FAILED" if isinstance(item.ending, ItemReason) else item.ending.name,
        "monopath.transport": (item.sent_by or stream.transport).value,
        "monopath.received_bytes": item.received_bytes,
        "monopath.sent_bytes": item.sent_bytes,
        "monopath.token_count": item.token_count,
    }
    if isinstance(item.ending, ItemReason):
        attributes["monopath.reason"] = item.ending.name
    if item.cache is not None:
        attributes["monopath.cache"] = item.cache.name
    return attributes


def _stages(item: ItemFacts) -> list[tuple[str, int, int]]:
    """Names, starts and ends. Only lengths are known of the stages between the plan and the features: they follow each
    other from the plan on."""
    stages: list[tuple[str, int, int]] = []
    if item.planned_ns:
        stages.append(("planning", item.accepted_ns, item.planned_ns))
    if item.timings is not None:
        start_ns = item.planned_ns
        for name, length_ns in (
            ("queued", item.timings.queued_ns),
            ("decoding", item.timings.decoding_ns),
            ("transforming", item.timings.transforming_ns),
        ):
            if length_ns:
                stages.append((name, start_ns, start_ns + length_ns))
                start_ns += length_ns
    if item.made_ns:
        stages.append(("delivering", item.made_ns, item.ended_ns))
    return stages
