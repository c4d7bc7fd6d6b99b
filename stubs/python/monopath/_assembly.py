"""One item's features as they come: chunks on their way to one array, or one handle. No I/O, no protobuf."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from monopath._carriers import Features
from monopath._errors import ProtocolError
from monopath._records import numpy_data_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from monopath._records import FeatureArray, ImagePlan

__all__ = ["FeatureAssembly"]


class FeatureAssembly:
    """Collects the chunks of one item in one buffer of the plan's size, or takes its handle."""

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
        self._features: Features | None = None

    def add(self, offset_bytes: int, data: bytes | memoryview) -> None:
        """Take the next chunk, or raise ProtocolError where it is not the next one or goes past the end."""
        if self._features is not None:
            raise ProtocolError("Expected no chunk of features that came by handle, got one")
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

    def place(self, length_bytes: int, take: Callable[[], Features]) -> None:
        """Take features that a handle leads to, or raise ProtocolError where none can come now, or not of that length.

        `take` follows the handle, once all else is right.
        """
        if self._features is not None or self._buffer is not None:
            raise ProtocolError("Expected features in chunks or by one handle, got a handle besides")
        if length_bytes != self._plan.size_bytes:
            raise ProtocolError(f"Expected a handle of {self._plan.size_bytes} bytes, as planned, got {length_bytes}")
        self._features = take()

    def finish(self, of_array: Callable[[FeatureArray], Features]) -> Features:
        """Return the features, or raise ProtocolError where bytes are missing. `of_array` takes those of chunks."""
        if self._features is not None:
            return self._features
        if self._buffer is None or self._received_bytes != self._plan.size_bytes:
            raise ProtocolError(
                f"Expected {self._plan.size_bytes} bytes before the completion, got {self._received_bytes}"
            )
        return of_array(self._buffer.view(self._numpy_type).reshape(self._plan.shape))
