"""Embeddings that a rank has made, by what they were made of."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import numpy.typing as npt

__all__ = ["EmbeddingCache"]


class EmbeddingCache:
    """Keeps the embeddings that were used last, within a number of bytes. For one task at a time."""

    def __init__(self, max_bytes: int) -> None:
        """0: nothing is kept."""
        self._max_bytes = max_bytes
        self._held_bytes = 0
        self._entries: OrderedDict[tuple[bytes, bytes], npt.NDArray[np.float32]] = OrderedDict()

    def get(self, content_sha256: bytes, config_sha256: bytes) -> npt.NDArray[np.float32] | None:
        """Return the embedding, [tokens, channels]. None where it is not held."""
        key = content_sha256, config_sha256
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def put(self, content_sha256: bytes, config_sha256: bytes, embedding: npt.NDArray[np.float32]) -> None:
        """Hold an embedding; those that were not used for longest make room."""
        if embedding.nbytes > self._max_bytes:
            return
        key = content_sha256, config_sha256
        replaced = self._entries.pop(key, None)
        self._held_bytes += embedding.nbytes - (0 if replaced is None else replaced.nbytes)
        self._entries[key] = embedding
        while self._held_bytes > self._max_bytes:
            _, dropped = self._entries.popitem(last=False)
            self._held_bytes -= dropped.nbytes
