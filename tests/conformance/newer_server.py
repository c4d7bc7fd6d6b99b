"""A server of a newer contract: it answers with fields, enum numbers and arms that no client of today knows.

Only what a client makes of them is looked at here, so it does no more than the vectors for it ask.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from concurrent import futures
from typing import Any

import grpc

from monopath.v1 import deferred_cpu_pb2, error_pb2, event_pb2, geometry_pb2, path_pb2, service_pb2, tensor_pb2

__all__ = ["NOVEL", "newer_server"]

NOVEL = 99
"""A number that no enum and no message of today has."""
_PATH = path_pb2.PREPROCESSING_PATH_DEFERRED_CPU
_DIGEST = bytes(range(32))
_UNKNOWN_FIELD = b"\x9a\x06\x05novel"
"""Field 99: the text "novel". Written behind a message, it is a field of it."""
_UNKNOWN_ARM = b"\x4a\x02\x08\x01"
"""Field 9: a message that says 1. Responses of today have no field 9."""
_FEATURES = bytes(range(48))


@contextlib.contextmanager
def newer_server() -> Iterator[str]:
    """Run the server in threads of this process, and give its address."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    # Requests are read, and responses written, as bytes: no stub could write these.
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "StreamDeferredCpu": grpc.stream_stream_rpc_method_handler(_stream),
        "Plan": grpc.unary_unary_rpc_method_handler(_plan_response),
        "GetCapabilities": grpc.unary_unary_rpc_method_handler(_capabilities),
    }
    service = grpc.method_handlers_generic_handler("monopath.v1.PreprocessingService", handlers)
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


def _stream(requests: Iterable[bytes], _context: object) -> Iterator[bytes]:
    """The stream of a good server: items labelled "fail" end with an error, all others with features."""
    summary = event_pb2.Summary()
    for serialized in requests:
        request = service_pb2.StreamDeferredCpuRequest.FromString(serialized)
        if request.WhichOneof("payload") == "config":
            limits = event_pb2.StreamLimits(
                max_unfinished_items=8, max_unfinished_bytes=1 << 20, max_feature_bytes=1 << 20, chunk_bytes=1 << 20
            )
            ready = event_pb2.Ready(path=_PATH, config_sha256=_DIGEST, limits=limits, device="cpu")
            yield _response(1, ready.SerializeToString() + _UNKNOWN_FIELD)
        else:
            summary.accepted_count += 1
            summary.received_bytes += len(request.item.image.pixels.data)
            yield from _answers(request.item, summary)
        yield _UNKNOWN_ARM
    yield _response(4, summary.SerializeToString() + _UNKNOWN_FIELD)


def _answers(item: deferred_cpu_pb2.DeferredCpuItem, summary: event_pb2.Summary) -> Iterator[bytes]:
    plan = event_pb2.ItemPlan(id=item.id, path=_PATH, plan=_plan(tensor_pb2.DATA_TYPE_FLOAT32))
    yield _response(2, plan.SerializeToString() + _UNKNOWN_FIELD)
    if item.label == "fail":
        summary.failed_count += 1
        novel: Any = NOVEL
        error = error_pb2.ItemError(id=item.id, label=item.label, reason=novel, message="Something new")
        yield _response(3, error.SerializeToString() + _UNKNOWN_FIELD)
        return
    summary.completed_count += 1
    summary.sent_bytes += len(_FEATURES)
    features = deferred_cpu_pb2.DeferredCpuFeatures(id=item.id)
    features.chunk.data = _FEATURES
    yield _response(27, features.SerializeToString() + _UNKNOWN_FIELD)
    yield _UNKNOWN_ARM
    completion = deferred_cpu_pb2.DeferredCpuCompletion(id=item.id, label=item.label, cache=NOVEL)  # type: ignore[arg-type]
    completion.provenance.path = _PATH
    completion.provenance.config_sha256 = _DIGEST
    completion.provenance.route = NOVEL  # type: ignore[assignment]
    completion.provenance.resample_kernel = NOVEL  # type: ignore[assignment]
    yield _response(28, completion.SerializeToString() + _UNKNOWN_FIELD)


def _plan(data_type: Any) -> geometry_pb2.ImagePlan:
    return geometry_pb2.ImagePlan(
        original_size=geometry_pb2.Size(width_px=2, height_px=2),
        resized_size=geometry_pb2.Size(width_px=2, height_px=2),
        padding=geometry_pb2.Padding(),
        grid_thw=geometry_pb2.GridThw(t=1, h=1, w=1),
        token_count=1,
        features=tensor_pb2.TensorSpec(data_type=data_type, shape=(1, 3, 2, 2), size_bytes=len(_FEATURES)),
    )


def _plan_response(serialized: bytes, _context: object) -> bytes:
    request = service_pb2.PlanRequest.FromString(serialized)
    response = service_pb2.PlanResponse(config_sha256=_DIGEST)
    for image in request.images:
        response.images.add(id=image.id, plan=_plan(NOVEL))
    return response.SerializeToString() + _UNKNOWN_FIELD


def _capabilities(_serialized: bytes, _context: object) -> bytes:
    novel: Any = NOVEL
    response = service_pb2.GetCapabilitiesResponse(
        contract_version="1.99.0",
        data_types=[tensor_pb2.DATA_TYPE_FLOAT32, novel],
        pixel_formats=[novel],
        resample_kernels=[novel],
        pillow_resample_kernel=novel,
        limits=event_pb2.StreamLimits(max_unfinished_items=8),
    )
    response.paths.add(path=_PATH, available=True)
    response.paths.add(path=novel, available=True)
    response.transports.add(name="novel", available=True)
    return response.SerializeToString() + _UNKNOWN_FIELD


def _response(arm: int, payload: bytes) -> bytes:
    """A response with this arm. Lengths and field numbers are varints."""
    return _varint(arm << 3 | 2) + _varint(len(payload)) + payload


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])
