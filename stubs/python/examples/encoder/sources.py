"""What a request is made of: encoded images for the deferred paths, finished features for the local one."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from examples.encoder.faults import Refused
from examples.encoder.frames import Buffer, Header
from monopath import GridThw, ImageInput, Item, LocalFeatures, Size
from monopath_server.faults import ItemFault
from monopath_server.media.header import probe_header
from monopath_server.media.limits import ImageLimits

__all__ = ["EncodedImage", "FinishedFeatures", "Source", "SourceT_co"]

_InputT_co = TypeVar("_InputT_co", covariant=True)


class Source(Protocol[_InputT_co]):
    """One image of a request, in the form of one path."""

    def packed(self) -> tuple[Header, Buffer]:
        """Return what a message says of it, and its bytes."""

    def content_sha256(self) -> bytes:
        """Return the SHA-256 of everything that its embedding depends on, besides the config."""

    def size(self) -> Size | None:
        """Return the size that its patches are planned from. None where it cannot be told."""

    def labelled(self, label: str) -> _InputT_co:
        """Return what is sent to the preprocessing server, with a label that comes back with the result."""


SourceT_co = TypeVar("SourceT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """The bytes of an image file."""

    data: bytes

    @classmethod
    def unpacked(cls, _header: Header, blob: memoryview) -> EncodedImage:
        """Read it from a message."""
        return cls(bytes(blob))

    def packed(self) -> tuple[Header, Buffer]:
        """Return nothing but its bytes."""
        return {}, self.data

    def content_sha256(self) -> bytes:
        """Return the file's SHA-256."""
        return hashlib.sha256(self.data).digest()

    def size(self) -> Size | None:
        """Return the size that the header says. A file without one fails later, on its own, with the reason."""
        try:
            stored = probe_header(self.data, ImageLimits()).stored_size
        except ItemFault:
            return None
        return Size(stored.width_px, stored.height_px)

    def labelled(self, label: str) -> ImageInput:
        """Return it as an item of a stream."""
        return Item(self.data, label=label)


@dataclass(frozen=True, slots=True, eq=False)
class FinishedFeatures:
    """Features that the caller made itself: float32 [rows, 3, patch height, patch width]."""

    features: LocalFeatures

    @classmethod
    def unpacked(cls, header: Header, blob: memoryview) -> FinishedFeatures:
        """Read it from a message. Raises Refused for one that says nothing usable."""
        try:
            return cls(
                LocalFeatures(
                    np.frombuffer(blob, "<f4").reshape(header["shape"]),
                    original_size=Size(*header["original_size"]),
                    grid_thw=GridThw(*header["grid_thw"]),
                    token_count=header["token_count"],
                )
            )
        except (KeyError, TypeError, ValueError):
            raise Refused("Expected features with shape, original_size, grid_thw and token_count, got others") from None

    def packed(self) -> tuple[Header, Buffer]:
        """Return all that the preprocessing server holds against the plan, and the array."""
        array, grid = self._array(), self.features.grid_thw
        if grid is None:
            raise ValueError("Expected features of patches: this encoder reads nothing else")
        return {
            "shape": array.shape,
            "original_size": (self.features.original_size.width_px, self.features.original_size.height_px),
            "grid_thw": (grid.t, grid.h, grid.w),
            "token_count": self.features.token_count,
        }, array.data.cast("B")

    def content_sha256(self) -> bytes:
        """Return the SHA-256 of the features and of what was said of them.

        Not the one of the image that the caller names: whoever names a wrong one would put wrong embeddings into the
        cache for others.
        """
        header, data = self.packed()
        digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
        digest.update(data)
        return digest.digest()

    def size(self) -> Size | None:
        """Return the size of the image that the features were made of."""
        return self.features.original_size

    def labelled(self, label: str) -> LocalFeatures:
        """Return it as an item of a stream."""
        return replace(self.features, label=label)

    def _array(self) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        return np.ascontiguousarray(self.features.array, dtype="<f4")
