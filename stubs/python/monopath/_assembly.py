"""One item's chunks on their way to one array. No I/O, no protobuf."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from monopath._errors import ProtocolError
from monopath._records import numpy_data_type

if TYPE_CHECKING:
    from monopath._records import FeatureArray, ImagePlan

__all__ = ["FeatureAssembly"]


class FeatureAssembly:
    """Collects the chunks of one item in one buffer of the plan's size."""

    def __init__(self, plan: ImagePlan, *, max_feature_bytes: int, data_type: str) -> None:
        """Check the planned tensor, and raise ProtocolError where it contradicts itself, the stream or its limits."""
        numpy_type = numpy_data_type(plan.data_type)
        if plan.data_type != data_type:
            raise ProtocolError(f"Expected a plan of {data_type}, got {plan.data_type}")
        if any(length < 1 for length in plan.shape) or not plan.shape:
            raise ProtocolError(f"Expected a plan with lengths of at least 1, got the shape {list(plan.shape)}")
        if math.prod(plan.shape) * numpy_type.itemsize != plan.size_bytes:
            raise ProtocolError(
                f"Expected {math.prod(plan.shape) * numpy_type.itemsize} bytes for {list(plan.shape)} of "
                f"{plan.data_type}, got a plan of {plan.size_bytes}"
            )
        if plan.size_bytes > max_feature_bytes:
            raise ProtocolError(
                f"Expected a plan within the stream's limit of {max_feature_bytes} bytes, got {plan.size_bytes}"
            )
        self._plan = plan
        self._numpy_type = numpy_type
        self._received_bytes = 0
        self._buffer: np.ndarray[tuple[int], np.dtype[np.uint8]] | None = None

    def add(self, offset_bytes: int, data: bytes) -> None:
        """Take the next chunk, or raise ProtocolError where it is not the next one or goes past the end."""
        if offset_bytes != self._received_bytes:
            raise ProtocolError(f"Expected a chunk at byte {self._received_bytes}, got one at {offset_bytes}")
        end_bytes = offset_bytes + len(data)
        if not data or end_bytes > self._plan.size_bytes:
            raise ProtocolError(
                f"Expected a chunk of 1 to {self._plan.size_bytes - offset_bytes} bytes, got one of {len(data)}"
            )
        if self._buffer is None:
            # Not at the plan: plans run ahead of features, and memory is better spent on those that have begun.
            self._buffer = np.empty(self._plan.size_bytes, dtype=np.uint8)
        self._buffer[offset_bytes:end_bytes] = np.frombuffer(data, dtype=np.uint8)
        self._received_bytes = end_bytes

    def finish(self) -> FeatureArray:
        """Return the array, or raise ProtocolError where bytes are missing."""
        if self._buffer is None or self._received_bytes != self._plan.size_bytes:
            raise ProtocolError(
                f"Expected {self._plan.size_bytes} bytes before the completion, got {self._received_bytes}"
            )
        return self._buffer.view(self._numpy_type).reshape(self._plan.shape)
