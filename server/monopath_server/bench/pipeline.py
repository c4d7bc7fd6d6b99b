"""What a worker of the server does with an image, called in this process."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from monopath.v1 import service_pb2
from monopath_server.delivery.parts import Chunk, chunks
from monopath_server.engine.buffers import Buffer, BufferPool
from monopath_server.engine.images import DecodedImage, PlannedImage, decode_planned, plan_item
from monopath_server.engine.items import EncodedSource, ImageItem
from monopath_server.engine.workers import CancelToken
from monopath_server.processors.presets import PRESETS
from monopath_server.processors.types import ElementType
from monopath_server.serving.wire import ChunkWriter
from monopath_server.settings import Settings
from monopath_server.transforms.cpu.transform import CpuTransform

__all__ = ["Pipeline", "read_bytes"]


class Pipeline:
    """The stages of `DEFERRED_CPU` for one config and element type. Threads may share it."""

    def __init__(self, preset: str, element_type: ElementType) -> None:
        settings = Settings()
        self.config = PRESETS[preset]
        self.element_type = element_type
        self._limits = settings.image_limits
        self._max_feature_bytes = settings.max_feature_bytes
        self._chunk_bytes = settings.chunk_bytes
        self._buffers = BufferPool(settings.idle_buffer_bytes)
        self._transform = CpuTransform(self.config, element_type)
        self._transform.warm_up()
        self._writer = ChunkWriter(service_pb2.StreamDeferredCpuResponse.DESCRIPTOR)

    def probe(self, data: bytes) -> PlannedImage:
        """Read the header and plan."""
        item = ImageItem(id=1, label="", source=EncodedSource(data), expected_sha256=b"")
        return plan_item(item, self.config, self.element_type, self._limits, self._max_feature_bytes)

    def digest(self, planned: PlannedImage) -> PlannedImage:
        """Hash the file. A worker does it while it decodes; here it is a stage of its own."""
        return replace(planned, content_sha256=hashlib.sha256(planned.item.source.data).digest())

    def decode(self, planned: PlannedImage) -> DecodedImage:
        """Decode and prepare, and hash where that is not done. The caller releases what it gets."""
        return decode_planned(planned, self.config, CancelToken(), self._buffers, self._limits)

    def transform(self, planned: PlannedImage, decoded: DecodedImage) -> Buffer:
        """Write the rows into pooled memory. The caller releases it."""
        rows = self._buffers.take(planned.feature_bytes)
        self._transform.rows_into(decoded.prepared, planned.plan, rows.array)
        return rows

    def deliver(self, rows: Buffer) -> int:
        """Write the rows as the response messages of an inline stream, and return their bytes."""
        written_bytes = 0
        for part in chunks(rows, self._chunk_bytes):
            if not isinstance(part, Chunk):
                raise TypeError(f"Expected rows of the host in chunks, got {type(part)}")
            written_bytes += len(self._writer.write(1, part.offset_bytes, part.data))
        return written_bytes

    def whole(self, data: bytes) -> Buffer:
        """From the file to the rows, as a worker does it. The caller releases them."""
        planned = self.probe(data)
        decoded = self.decode(planned)
        try:
            return self.transform(planned, decoded)
        finally:
            decoded.release()

    def run(self, data: bytes) -> None:
        """`whole`, and drop what it made."""
        self.whole(data).release()


def read_bytes(array: NDArray[np.generic]) -> int:
    """Read every byte once, as whoever takes features does, and return the sum of their 8-byte words."""
    flat = array.reshape(-1).view(np.uint8)
    whole_words = len(flat) // 8 * 8
    return int(np.add.reduce(flat[:whole_words].view(np.uint64))) + int(np.add.reduce(flat[whole_words:]))
