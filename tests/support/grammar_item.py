"""What the grammar checker keeps of one item, and the rules of that item's own messages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from monopath.v1 import error_pb2, tensor_pb2
from tests.support.grammar_events import Rule
from tests.support.options import reason_traits

__all__ = ["MAX_CHUNK_BYTES", "Finding", "ItemTrack", "byte_count"]

MAX_CHUNK_BYTES = 1 << 20
"""Most bytes of features in one response message, whatever the server's limits say."""

Finding = tuple[Rule, str]
"""A broken rule and what was expected and found, without the item's id."""

_ELEMENT_BYTES = {
    tensor_pb2.DATA_TYPE_UINT8: 1,
    tensor_pb2.DATA_TYPE_FLOAT32: 4,
    tensor_pb2.DATA_TYPE_BFLOAT16: 2,
    tensor_pb2.DATA_TYPE_FLOAT16: 2,
}
_TRANSPORT_LOCATIONS = {
    "inline": {"chunk"},
    "shared_memory": {"shared_memory", "chunk"},
    "cuda_ipc": {"cuda_ipc", "chunk"},
}
"""Where memory is short, features come in chunks whatever was asked for."""


def byte_count(located: Any) -> int:
    """Bytes that a message with a `oneof location` carries or points to."""
    match located.WhichOneof("location"):
        case None:
            return 0
        case "data":
            return len(located.data)
        case "chunk":
            return len(located.chunk.data)
        case handle:
            return int(getattr(located, handle).length_bytes)


@dataclass(slots=True)
class ItemTrack:
    """One item between its announcement and its end."""

    item: Any
    """The client's announcement."""
    received_bytes: int = 0
    """Bytes of the image, or of finished features, that the client sent."""
    sent_bytes: int = 0
    """Bytes of features that the server sent."""
    plan: Any = None
    """The `ItemPlan`, once there was one."""
    end: str | None = None
    """`completed`, `failed` or `cancelled`, once the item has ended."""
    cancellation_sent: bool = False
    location: str | None = None
    """Where the item's first features were."""

    def take_client_features(self, message: Any) -> Iterator[Finding]:
        """The client sent bytes of finished features (a `LocalItemFeatures`)."""
        if message.WhichOneof("location") == "chunk" and message.chunk.offset_bytes != self.received_bytes:
            yield (
                Rule.REQUEST_BYTES,
                f"Expected a chunk at {self.received_bytes}, got one at {message.chunk.offset_bytes}",
            )
        size_bytes = byte_count(message)
        if size_bytes == 0:
            yield Rule.REQUEST_BYTES, "Expected bytes, got none"
        self.received_bytes += size_bytes
        if self.received_bytes > self.item.features.size_bytes:
            announced = self.item.features.size_bytes
            yield Rule.REQUEST_BYTES, f"Expected at most {announced} bytes, got {self.received_bytes}"

    def take_plan(self, message: Any, path: int, data_type: int) -> Iterator[Finding]:
        """The server planned the item (an `ItemPlan`) for a stream of this path and element type."""
        if self.plan is not None:
            yield Rule.PLAN_ONCE, "Expected one plan, got a second"
            return
        self.plan = message
        if message.path != path:
            yield Rule.PATH, f"Expected a plan of path {path}, got path {message.path}"
        spec = message.plan.features
        if spec.data_type != data_type:
            yield Rule.PLAN_TENSOR, f"Expected elements of type {data_type}, got type {spec.data_type}"
        expected_bytes = math.prod(spec.shape) * _ELEMENT_BYTES.get(spec.data_type, 0)
        if not spec.shape or expected_bytes == 0 or spec.size_bytes != expected_bytes:
            shape = list(spec.shape)
            yield Rule.PLAN_TENSOR, f"Expected {expected_bytes} bytes for shape {shape}, got {spec.size_bytes}"

    def take_features(self, message: Any, transport: str | None, chunk_limit_bytes: int) -> Iterator[Finding]:
        """The server sent features of the item, on a stream of this transport."""
        if self.plan is None:
            yield Rule.PLAN_FIRST, "Expected a plan before features, got none"
            return
        location, size_bytes = message.WhichOneof("location"), byte_count(message)
        offset_bytes, self.sent_bytes = self.sent_bytes, self.sent_bytes + size_bytes
        expected = sorted(_TRANSPORT_LOCATIONS.get(transport or "", set()))
        if location not in expected:
            yield Rule.LOCATION, f"Expected features as one of {expected}, got {location}"
        elif self.location is not None and not location == self.location == "chunk":
            yield Rule.LOCATION, f"Expected one handle or chunks alone, got {location} after {self.location}"
        elif location == "chunk":
            if message.chunk.offset_bytes != offset_bytes:
                found = message.chunk.offset_bytes
                yield Rule.CHUNK_CONTIGUOUS, f"Expected a chunk at {offset_bytes}, got one at {found}"
            if not 0 < size_bytes <= chunk_limit_bytes:
                yield Rule.CHUNK_SIZE, f"Expected a chunk of 1 to {chunk_limit_bytes} bytes, got {size_bytes}"
            if self.sent_bytes > self._planned_bytes:
                yield Rule.CHUNK_INSIDE, f"Expected at most {self._planned_bytes} bytes, got {self.sent_bytes}"
        else:
            yield from self._handle(getattr(message, location))
        self.location = self.location or location

    def _handle(self, handle: Any) -> Iterator[Finding]:
        if handle.length_bytes != self._planned_bytes:
            yield Rule.HANDLE, f"Expected a handle to {self._planned_bytes} bytes, got one to {handle.length_bytes}"
        if handle.generation == 0:
            yield Rule.HANDLE, "Expected a generation, got none"
        if not (handle.name if "name" in handle.DESCRIPTOR.fields_by_name else handle.memory_handle):
            yield Rule.HANDLE, "Expected the memory's name, got none"

    def take_completion(self, message: Any, path: int, config_sha256: bytes) -> Iterator[Finding]:
        """The item ended well, on a stream of this path and config digest."""
        self.end = "completed"
        yield from self._label(message)
        if self.plan is None:
            yield Rule.PLAN_FIRST, "Expected a plan before the completion, got none"
        elif self.sent_bytes < self._planned_bytes:
            planned = self._planned_bytes
            yield Rule.FEATURES_COMPLETE, f"Expected {planned} bytes before the completion, got {self.sent_bytes}"
        if message.provenance.path != path:
            yield Rule.PATH, f"Expected a provenance of path {path}, got path {message.provenance.path}"
        if message.provenance.config_sha256 != config_sha256:
            expected, found = config_sha256.hex(), message.provenance.config_sha256.hex()
            yield Rule.DIGEST, f"Expected the config digest {expected!r} of ready, got {found!r}"

    def take_error(self, message: error_pb2.ItemError) -> Iterator[Finding]:
        """The item ended badly."""
        cancelled = message.reason == error_pb2.ITEM_ERROR_REASON_CANCELLED
        self.end = "cancelled" if cancelled else "failed"
        yield from self._label(message)
        if cancelled and not self.cancellation_sent:
            yield Rule.CANCELLED_ASKED, "Expected a cancellation by the client, got none"
        traits = reason_traits(error_pb2.ItemErrorReason.DESCRIPTOR, message.reason)
        if traits is None:
            yield Rule.ERROR_REASON, f"Expected a reason of the contract, got {message.reason}"
        elif traits.retryable != message.HasField("retry_after"):
            expected, found = ("one", "none") if traits.retryable else ("none", "one")
            yield Rule.ERROR_REASON, f"Expected {expected} as retry_after of reason {message.reason}, got {found}"

    def _label(self, message: Any) -> Iterator[Finding]:
        if message.label != self.item.label:
            yield Rule.LABEL, f"Expected the label {self.item.label!r}, got {message.label!r}"

    def fell_back(self, transport: str | None) -> bool:
        """Whether features came in chunks though the config asked for handles."""
        return self.location == "chunk" and transport != "inline"

    @property
    def _planned_bytes(self) -> int:
        return int(self.plan.plan.features.size_bytes)
