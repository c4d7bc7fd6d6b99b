"""Spans of items, from real streams: parents, stages, attributes, and what comes of a traceparent that is none."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent import futures
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from monopath_server.observer import Ended, ItemFacts, StreamFacts
from monopath_server.settings import Settings
from monopath_server.telemetry import spans
from monopath_server.telemetry.settings import TelemetrySettings
from tests.support.server import quick_settings
from tests.support.stream import encoded, make_item, photo, png, running_rig

TRACE_ID = 0x0AF7651916CD43DD8448EB211C80319C
PARENT_ID = 0xB7AD6B7169203331
SAMPLED = f"00-{TRACE_ID:032x}-{PARENT_ID:016x}-01"
GOOD = png(photo(60, 44))
LABEL = "a label that is nobody's business"


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Where the spans of servers go that are asked to send any."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setattr(spans, "otlp_observer", lambda _endpoint: spans.SpanObserver(provider))
    return memory


def traced_settings(endpoint: str = "http://127.0.0.1:4317", **changes: object) -> Settings:
    return quick_settings(telemetry=TelemetrySettings(otlp_endpoint=endpoint), **changes)


def traced_item(item_id: int, data: bytes, traceparent: str) -> Any:
    request = make_item(item_id, encoded(data), LABEL)
    request.item.traceparent = traceparent
    return request


def items_of(found: Sequence[ReadableSpan]) -> dict[int, ReadableSpan]:
    """The spans of items, by the items' ids."""
    return {
        int(str((span.attributes or {})["monopath.item_id"])): span for span in found if span.kind is SpanKind.SERVER
    }


def stages_of(found: Sequence[ReadableSpan], item: ReadableSpan) -> dict[str, ReadableSpan]:
    """The spans inside an item's, by name."""
    assert item.context is not None
    return {
        span.name: span for span in found if span.parent is not None and span.parent.span_id == item.context.span_id
    }


@pytest.mark.asyncio
async def test_an_item_is_a_child_of_its_traceparent_and_has_a_child_for_each_stage(
    exporter: InMemorySpanExporter,
) -> None:
    async with running_rig(traced_settings(cache_bytes=1 << 20)) as rig:
        stream = await rig.run([traced_item(1, GOOD, SAMPLED)])
    assert stream.outcomes[1].completion is not None
    found = exporter.get_finished_spans()
    [item] = items_of(found).values()
    assert item.name == "preprocess DEFERRED_CPU"
    assert item.parent is not None
    assert (item.parent.trace_id, item.parent.span_id, item.parent.is_remote) == (TRACE_ID, PARENT_ID, True)
    assert dict(item.attributes or {}) == {
        "monopath.path": "DEFERRED_CPU",
        "monopath.stream_id": 1,
        "monopath.item_id": 1,
        "monopath.outcome": "COMPLETED",
        "monopath.transport": "inline",
        "monopath.received_bytes": len(GOOD),
        "monopath.sent_bytes": 24 * 588 * 4,
        "monopath.token_count": 6,
        "monopath.cache": "MISS",
    }
    assert item.status.status_code is StatusCode.UNSET
    stages = stages_of(found, item)
    assert list(stages) == ["planning", "queued", "decoding", "transforming", "delivering"]
    assert len(found) == 1 + len(stages)
    times = [(span.start_time or 0, span.end_time or 0) for span in stages.values()]
    assert all(start <= end for start, end in times)
    assert times == sorted(times)
    assert (item.start_time, item.end_time) == (times[0][0], times[-1][1])
    assert all(span.context is not None and span.context.trace_id == TRACE_ID for span in found)


@pytest.mark.asyncio
async def test_a_failed_item_is_an_error_with_its_reason_and_nothing_that_was_sent(
    exporter: InMemorySpanExporter,
) -> None:
    async with running_rig(traced_settings()) as rig:
        await rig.run([traced_item(1, b"no image", SAMPLED), traced_item(2, GOOD, "")])
    found = exporter.get_finished_spans()
    failed = items_of(found)[1]
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "IMAGE_UNSUPPORTED")
    attributes = failed.attributes or {}
    assert (attributes["monopath.outcome"], attributes["monopath.reason"]) == ("FAILED", "IMAGE_UNSUPPORTED")
    assert stages_of(found, failed) == {}
    assert LABEL not in "".join(span.to_json() for span in found)


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "nonsense",
        SAMPLED[:-1],
        SAMPLED.replace("00-", "ff-", 1),
        f"00-{0:032x}-{PARENT_ID:016x}-01",
        f"00-{TRACE_ID:032x}-{0:016x}-01",
        SAMPLED.upper(),
        "00-" + "z" * 32 + "-" + "z" * 16 + "-01",
        "\r\n" + "x" * 100,
    ],
)
@pytest.mark.asyncio
async def test_a_traceparent_that_is_none_begins_a_trace_of_its_own(
    traceparent: str, exporter: InMemorySpanExporter
) -> None:
    async with running_rig(traced_settings()) as rig:
        stream = await rig.run([traced_item(1, GOOD, traceparent)])
    assert stream.outcomes[1].completion is not None
    [item] = items_of(exporter.get_finished_spans()).values()
    assert item.parent is None
    assert item.context is not None
    assert item.context.trace_id not in (0, TRACE_ID)


@pytest.mark.asyncio
async def test_a_trace_that_is_not_sampled_has_no_span_here_either(exporter: InMemorySpanExporter) -> None:
    async with running_rig(traced_settings()) as rig:
        stream = await rig.run([traced_item(1, GOOD, SAMPLED[:-2] + "00"), traced_item(2, GOOD, SAMPLED)])
    assert len(stream.outcomes) == 2
    assert list(items_of(exporter.get_finished_spans())) == [2]


@pytest.mark.asyncio
async def test_spans_reach_a_collector_with_the_services_name(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[trace_service_pb2.ExportTraceServiceRequest] = []

    class Collector(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002 - OTLP's
            received.append(request)
            return trace_service_pb2.ExportTraceServiceResponse()

    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    collector = grpc.server(futures.ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Collector(), collector)  # type: ignore[no-untyped-call]
    port = collector.add_insecure_port("127.0.0.1:0")
    collector.start()
    try:
        async with running_rig(traced_settings(f"http://127.0.0.1:{port}")) as rig:
            await rig.run([traced_item(1, GOOD, SAMPLED)])
    finally:
        collector.stop(0)
    [resource] = [resource for request in received for resource in request.resource_spans]
    attributes = {found.key: found.value.string_value for found in resource.resource.attributes}
    assert (attributes["service.name"], attributes["deployment.environment.name"]) == ("monopath", "test")
    names = {span.name for scope in resource.scope_spans for span in scope.spans}
    assert names >= {"preprocess DEFERRED_CPU", "decoding"}


@pytest.mark.asyncio
async def test_a_collector_that_is_not_there_harms_no_item_and_no_stop() -> None:
    async with running_rig(traced_settings("http://127.0.0.1:9")) as rig:
        stream = await rig.run([traced_item(1, GOOD, SAMPLED)])
    assert stream.outcomes[1].completion is not None


def test_spans_that_come_too_fast_are_left_out_and_the_log_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spans, "MAX_WAITING_SPANS", 0)
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    observer = spans.SpanObserver(provider)
    for item_id in range(1, 4):
        item = ItemFacts(item_id, SAMPLED, ending=Ended.COMPLETED)
        observer.item_ended(StreamFacts(1, "StreamLocal", "LOCAL", "peer"), item)
    observer.close()
    assert memory.get_finished_spans() == ()
    assert caplog.text.count("left out") == 1
