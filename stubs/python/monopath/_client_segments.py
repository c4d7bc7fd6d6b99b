"""A client's own shared memory: made when its first stream needs it, and taken away with the client."""

from __future__ import annotations

import secrets
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path

import grpc

from monopath._enums import StreamErrorReason
from monopath._errors import StreamRefused
from monopath._upload import UploadPool
from monopath.shared_memory import DEFAULT_DIRECTORY, SegmentError, SegmentOwner, SharedMemoryFull, read_segment, sweep
from monopath.v1 import location_pb2

__all__ = ["ClientSegments", "OwnSegments", "check_probe", "unavailable"]

_PROBE_BYTES = 4096
_NONCE_BYTES = 32


@dataclass(frozen=True, slots=True)
class OwnSegments:
    """What a client shares with the servers of its host."""

    directory: Path
    probe: location_pb2.SharedMemoryProbe
    """A segment with a secret in it, by which a server sees that it looks into the same directory."""
    uploads: UploadPool


class ClientSegments:
    """Safe to use from every thread. What is left when the client is garbage, or the process ends, is taken away."""

    def __init__(self, directory: Path | None) -> None:
        """Touch nothing yet. None: the directory of POSIX shared memory."""
        self._directory = DEFAULT_DIRECTORY if directory is None else directory
        self._lock = threading.Lock()
        self._opened: OwnSegments | None = None
        self._closed = False
        self._close_owner: weakref.finalize[[], ClientSegments] | None = None

    def open(self) -> OwnSegments:
        """Return them, made by the first call. Raises StreamRefused where they cannot be, ValueError after `close`."""
        with self._lock:
            if self._closed:
                raise ValueError("Expected an open client, got a closed one")
            if self._opened is None:
                try:
                    self._opened = self._make()
                except (OSError, SharedMemoryFull) as error:
                    raise unavailable(
                        f"Expected a directory for shared memory that this process can write to, got {self._directory} "
                        f'({_words(error)}); name another as shared_memory_directory, or use transport="inline"'
                    ) from error
            return self._opened

    def close(self) -> None:
        """Take them away. Calling it again does nothing."""
        with self._lock:
            self._closed = True
            if self._close_owner is not None:
                self._close_owner()

    def _make(self) -> OwnSegments:
        sweep(self._directory)
        owner = SegmentOwner(self._directory)
        try:
            segment = owner.create(_PROBE_BYTES)
        except BaseException:
            owner.close()
            raise
        nonce = secrets.token_bytes(_NONCE_BYTES)
        segment.memory[:_NONCE_BYTES] = nonce
        self._close_owner = weakref.finalize(self, owner.close)
        probe = location_pb2.SharedMemoryProbe(name=segment.name, nonce=nonce)
        return OwnSegments(self._directory, probe, UploadPool(owner))


def check_probe(directory: Path, probe: location_pb2.SharedMemoryProbe) -> None:
    """Raise StreamRefused unless the server's segment is found, with the server's secret in it."""
    found = bytearray(len(probe.nonce))
    try:
        read_segment(directory, probe.name, 0, memoryview(found))
    except (OSError, SegmentError) as error:
        raise unavailable(_elsewhere(directory, _words(error))) from error
    if found != probe.nonce:
        raise unavailable(_elsewhere(directory, "a segment of its name with other bytes in it"))


def unavailable(message: str) -> StreamRefused:
    """Return the error of a stream whose transport cannot be used; the server's own refusal is the same."""
    return StreamRefused(grpc.StatusCode.FAILED_PRECONDITION, message, reason=StreamErrorReason.TRANSPORT_UNAVAILABLE)


def _elsewhere(directory: Path, got: str) -> str:
    return (
        f"Expected the server's shared memory in {directory}, got {got}. Client and server have to run on one host, as "
        "one user, and see the same directory: containers need --ipc (and --shm-size) or a volume, which the client "
        'names as shared_memory_directory; without that use transport="inline"'
    )


def _words(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
