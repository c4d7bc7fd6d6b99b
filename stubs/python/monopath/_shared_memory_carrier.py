"""Features and images of one stream in shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import numpy as np

from monopath._carriers import Carrier, Features, MemoryHandle
from monopath._client_segments import ClientSegments, OwnSegments, check_probe
from monopath._errors import ProtocolError, StreamBroken
from monopath._mapped_segment import SegmentMappings
from monopath._records import numpy_data_type
from monopath._upload import MIN_UPLOAD_BYTES, Upload
from monopath.shared_memory import SegmentError, SharedMemoryFull
from monopath.v1 import config_pb2, location_pb2

if TYPE_CHECKING:
    from monopath._leases import Lease
    from monopath._records import ImagePlan
    from monopath.v1 import event_pb2

__all__ = ["SharedMemoryCarrier"]

_MIN_NONCE_BYTES = 16


class SharedMemoryCarrier(Carrier):
    """Carries them in segments of the server's and of this client's, where there is room in them."""

    def __init__(self, segments: ClientSegments) -> None:
        self._segments = segments
        self._own: OwnSegments | None = None
        self._uploads: dict[int, Upload] = {}
        self._mappings: SegmentMappings | None = None

    def output(self, output: config_pb2.OutputConfig) -> config_pb2.OutputConfig:
        self._own = self._segments.open()
        asked = config_pb2.OutputConfig()
        asked.CopyFrom(output)
        asked.shared_memory.probe.CopyFrom(self._own.probe)
        return asked

    def check(self, ready: event_pb2.Ready) -> None:
        assert self._own is not None
        probe = ready.shared_memory.probe
        if len(probe.nonce) < _MIN_NONCE_BYTES:
            raise ProtocolError(
                f"Expected ready with {_MIN_NONCE_BYTES} bytes or more to find in shared memory, got {len(probe.nonce)}"
            )
        check_probe(self._own.directory, probe)
        self._mappings = SegmentMappings(self._own.directory)

    def features(self, handle: MemoryHandle, plan: ImagePlan, lease: Lease) -> Features:
        assert self._mappings is not None
        if not isinstance(handle, location_pb2.SharedMemoryHandle):
            raise ProtocolError("Expected features inline or in shared memory, got them in the memory of a GPU")
        try:
            memory = self._mappings.map_bytes(handle.name, handle.offset_bytes, handle.length_bytes, handle.generation)
        except SegmentError as error:
            raise ProtocolError(
                f"Expected a handle of shared memory that can be mapped, got one that cannot: {error}"
            ) from None
        except OSError as error:
            message = f"Expected room to map another segment, got none: {error.strerror}; hold fewer results at a time"
            raise StreamBroken(grpc.StatusCode.RESOURCE_EXHAUSTED, message) from error
        lease.ends_with(memory)
        array = np.asarray(memory).view(numpy_data_type(plan.data_type)).reshape(plan.shape)
        return Features(array=array, lease=lease)

    def can_upload(self, size_bytes: int) -> bool:
        return size_bytes >= MIN_UPLOAD_BYTES

    def begin_upload(self, wire_id: int, size_bytes: int) -> Upload | None:
        assert self._own is not None
        if not self.can_upload(size_bytes):
            return None
        try:
            upload = self._own.uploads.take(size_bytes)
        except (SharedMemoryFull, OSError):
            # The same bytes can go another way.
            return None
        self._uploads[wire_id] = upload
        return upload

    def end_upload(self, wire_id: int) -> None:
        upload = self._uploads.pop(wire_id, None)
        if upload is not None:
            upload.end()

    def end(self) -> None:
        for wire_id in list(self._uploads):
            self.end_upload(wire_id)
        if self._mappings is not None:
            self._mappings.close()
