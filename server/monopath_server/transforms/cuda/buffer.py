"""A block of memory that grows with need and is kept."""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["GrowingBuffer"]

_SMALLEST_BYTES = 1024 * 1024


class GrowingBuffer:
    """One uint8 tensor, allocated when first needed and again when it is too small. Its bytes do not survive that."""

    def __init__(self, allocate: Callable[[int], torch.Tensor], usual_limit_bytes: int | None = None) -> None:
        """Make an empty buffer.

        Args:
            allocate: Returns a uint8 tensor of that many bytes.
            usual_limit_bytes: What is kept in reserve never goes beyond this; what is needed may.
        """
        self._allocate = allocate
        self._usual_limit_bytes = usual_limit_bytes
        self._tensor: torch.Tensor | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes allocated."""
        return 0 if self._tensor is None else self._tensor.numel()

    def ensure(self, size_bytes: int) -> torch.Tensor:
        """Return the tensor, of at least `size_bytes`.

        Sizes are powers of two where the limit allows, so that a buffer soon is large enough for good: pinning memory
        takes milliseconds.

        Raises:
            Exception: what `allocate` raises; the buffer is then empty.
        """
        if self._tensor is None or self._tensor.numel() < size_bytes:
            # The old block goes first: both at once could be more than there is.
            self.release()
            reserve_bytes = 1 << (max(size_bytes, _SMALLEST_BYTES) - 1).bit_length()
            if self._usual_limit_bytes is not None:
                reserve_bytes = max(min(reserve_bytes, self._usual_limit_bytes), size_bytes)
            # Whole words of every size that the kernels read.
            self._tensor = self._allocate(-(-reserve_bytes // 256) * 256)
        return self._tensor

    def release(self) -> None:
        """Give the memory back."""
        self._tensor = None
