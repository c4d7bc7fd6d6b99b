"""Bytes that a client put into shared memory: images, and finished features.

They are always copied before anything looks at them. What another process maps can change, or shrink, at any time:
bytes that change between their digest and their decoding would poison the cache, and a mapping that shrinks ends its
reader.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from monopath.shared_memory import SegmentError, check_segment, load_segment, read_segment
from monopath_server.engine.cache import FeatureCache
from monopath_server.engine.items import ImageItem
from monopath_server.engine.work import ImageEngine, ImageWork
from monopath_server.faults import ItemFault, ItemReason

__all__ = ["SegmentBytes", "UploadedImageWork", "Uploads"]


@dataclass(frozen=True, slots=True)
class SegmentBytes:
    """Bytes in a client's segment."""

    directory: Path
    field: str
    """Where the handle stood: `image.encoded.shared_memory`."""
    name: str
    offset_bytes: int
    length_bytes: int

    def check(self) -> None:
        """Raise `ItemFault` where the bytes are not there. Quick."""
        with self._told():
            check_segment(self.directory, self.name, self.offset_bytes, self.length_bytes)

    def load(self) -> bytes:
        """Return a copy. Not for the event loop. Raises `ItemFault`."""
        with self._told():
            return load_segment(self.directory, self.name, self.offset_bytes, self.length_bytes)

    def read_into(self, memory: memoryview) -> None:
        """Copy into memory of their length. Not for the event loop. Raises `ItemFault`."""
        with self._told():
            read_segment(self.directory, self.name, self.offset_bytes, memory)

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except SegmentError as error:
            raise _invalid(str(error), self.field) from None
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise
            message = "Expected a free descriptor to open the segment with, got none"
            raise ItemFault(ItemReason.OVERLOADED, message, field=self.field) from error


class Uploads:
    """The handles that came on one stream. Used on the event loop only."""

    def __init__(self, directory: Path, max_image_bytes: int, max_feature_bytes: int) -> None:
        self._directory = directory
        self._max_image_bytes = max_image_bytes
        self._max_feature_bytes = max_feature_bytes
        self._last_generation = 0

    def take(self, field: str, name: str, offset_bytes: int, length_bytes: int, generation: int) -> SegmentBytes:
        """Take the handle of finished features. The item has told their size; no item has more than the limit.

        Raises:
            ItemFault: HANDLE_INVALID.
        """
        taken = self._take(field, name, offset_bytes, length_bytes, generation)
        if length_bytes > self._max_feature_bytes:
            raise _invalid(f"Expected at most {self._max_feature_bytes} bytes, got {length_bytes}", field)
        return taken

    def take_image(self, field: str, name: str, offset_bytes: int, length_bytes: int, generation: int) -> SegmentBytes:
        """Take the handle of an image. Its length is counted as it is told, and found out when it is read.

        Raises:
            ItemFault: HANDLE_INVALID, IMAGE_BYTES_EXCEEDED.
        """
        taken = self._take(field, name, offset_bytes, length_bytes, generation)
        if length_bytes > self._max_image_bytes:
            # A lie is told as one.
            taken.check()
            raise ItemFault(
                ItemReason.IMAGE_BYTES_EXCEEDED,
                f"Expected at most {self._max_image_bytes} bytes of an image, got {length_bytes}",
                field=field,
            )
        return taken

    def _take(self, field: str, name: str, offset_bytes: int, length_bytes: int, generation: int) -> SegmentBytes:
        """Take a handle, once."""
        if generation <= self._last_generation:
            raise _invalid(
                f"Expected a generation larger than {self._last_generation}, got {generation}: a handle is used once",
                f"{field}.generation",
            )
        self._last_generation = generation
        return SegmentBytes(self._directory, field, name, offset_bytes, length_bytes)


class UploadedImageWork(ImageWork):
    """An image whose bytes are read from shared memory before it is planned."""

    def __init__(
        self, engine: ImageEngine, item: ImageItem, cache: FeatureCache | None, uploaded: SegmentBytes
    ) -> None:
        """`item` is the image, but for its bytes."""
        super().__init__(engine, item, cache)
        self._uploaded = uploaded

    @property
    def size_bytes(self) -> int:
        return self._uploaded.length_bytes

    @property
    def _image(self) -> Callable[[], ImageItem]:
        return self._load

    def _load(self) -> ImageItem:
        return replace(self._item, source=replace(self._item.source, data=self._uploaded.load()))


def _invalid(message: str, field: str) -> ItemFault:
    return ItemFault(ItemReason.HANDLE_INVALID, message, field=field)
