"""The server's shared memory: its directory, its segments, and the proof that a client sees the same."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from monopath.shared_memory import (
    SegmentError,
    SegmentOwner,
    SharedMemoryFull,
    WritableSegment,
    load_segment,
    sweep,
)
from monopath_server.delivery.segments import SegmentPool
from monopath_server.faults import StreamFault, StreamReason

__all__ = ["Probe", "SharedMemory", "open_shared_memory"]

NONCE_BYTES = 32
PROBE_BYTES = 4096
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Probe:
    """A segment with a secret in it."""

    name: str
    nonce: bytes


class SharedMemory:
    """Shared memory that this server can use. Safe to use from every thread."""

    def __init__(self, directory: Path, limit_bytes: int, make_room: Callable[[int], int]) -> None:
        """Raises OSError or SharedMemoryFull where the directory cannot be used."""
        self.directory = directory
        self._sweeping = threading.Lock()
        self.sweep()
        self._owner = SegmentOwner(directory)
        try:
            self._probe_segment = self._owner.create(PROBE_BYTES)
        except BaseException:
            self._owner.close()
            raise
        self.probe = Probe(self._probe_segment.name, _write_nonce(self._probe_segment))
        self.pool = SegmentPool(self._owner, limit_bytes, make_room)

    def check_client(self, probe: Probe | None) -> None:
        """Hold what a client says against what this server sees. Reads a file; not for the event loop.

        Raises:
            StreamFault: TRANSPORT_UNAVAILABLE.
        """
        nonce_bytes = 0 if probe is None else len(probe.nonce)
        if probe is None or nonce_bytes < 16:
            raise _unavailable(f"shared_memory: expected a probe with a nonce of 16 bytes or more, got {nonce_bytes}")
        try:
            found = load_segment(self.directory, probe.name, 0, len(probe.nonce))
        except SegmentError as error:
            raise _unavailable(
                f"shared_memory: expected to see the client's segment, got none ({error}). Client and server have to "
                "run on one host, as one user, and share one directory, usually /dev/shm: containers need --ipc, or a "
                "volume"
            ) from None
        if found != probe.nonce:
            raise _unavailable("shared_memory: expected the client's nonce in its segment, got other bytes")

    def sweep(self) -> None:
        """Take away what dead clients and servers left behind. Not for the event loop."""
        if self._sweeping.acquire(blocking=False):
            try:
                count = sweep(self.directory)
            finally:
                self._sweeping.release()
            if count:
                logger.info("Removed %d segments of shared memory of processes that are gone", count)

    def close(self) -> None:
        """Take all segments away; clients that have mapped one can still read it."""
        self._owner.close()


def open_shared_memory(
    directory: Path, limit_bytes: int, make_room: Callable[[int], int]
) -> tuple[SharedMemory | None, str]:
    """Open the server's shared memory, or say why there is none. Touches files; not for the event loop."""
    if limit_bytes == 0:
        return None, "shared memory is switched off in the server's settings"
    try:
        return SharedMemory(directory, limit_bytes, make_room), ""
    except (OSError, SharedMemoryFull) as error:
        logger.warning("No shared memory in %s", directory, exc_info=error)
        return None, "the server cannot use its directory for shared memory; its log says why"


def _write_nonce(segment: WritableSegment) -> bytes:
    nonce = secrets.token_bytes(NONCE_BYTES)
    segment.memory[:NONCE_BYTES] = nonce
    return nonce


def _unavailable(message: str) -> StreamFault:
    return StreamFault(StreamReason.TRANSPORT_UNAVAILABLE, message)
