"""Finished features by what they were made from, the least recently used ones dropped first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from monopath_server.engine.buffers import block_bytes
from monopath_server.engine.items import CacheOutcome, Features, Provenance, Timings
from monopath_server.engine.rows import Holding, Rows
from monopath_server.media.pixels import PixelFormat
from monopath_server.processors.types import ElementType, ImagePlan, Size

__all__ = ["ContentKey", "FeatureStore"]


@dataclass(frozen=True, slots=True)
class ContentKey:
    """All that decides the bytes of features, and nothing else: not the path, the device, the transport or the item."""

    content_sha256: bytes
    """Of an image file exactly as it was sent, or of raw pixels."""
    pixel_format: PixelFormat | None
    """None for an image file."""
    pixel_size: Size | None
    """None for an image file."""
    config_sha256: bytes
    element_type: ElementType


@dataclass(frozen=True, slots=True)
class _Entry:
    holding: Holding
    plan: ImagePlan
    provenance: Provenance

    @property
    def charged_bytes(self) -> int:
        """What the memory really takes: pools round up, so thousands of tiny entries are far more than their rows."""
        return block_bytes(self.holding.rows.size_bytes)

    @property
    def is_held_by_others(self) -> bool:
        """Letting go of it would free nothing yet."""
        return self.holding.is_shared


class FeatureStore:
    """Keeps shares of features, up to `limit_bytes`. Safe to use from every thread.

    Rows are released with no lock held, so their pools may call back into the store.
    """

    def __init__(self, limit_bytes: int) -> None:
        if limit_bytes <= 0:
            raise ValueError(f"Expected a limit of at least 1 byte, got {limit_bytes}")
        self._limit_bytes = limit_bytes
        self._entries: OrderedDict[ContentKey, _Entry] = OrderedDict()
        self._stored_bytes = 0
        self._is_closed = False
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def stored_bytes(self) -> int:
        """Memory of all entries, as their pools round it up."""
        return self._stored_bytes

    def get(self, key: ContentKey) -> Features | None:
        """Features that share the stored rows and are the caller's to release; None where there are none."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return Features(entry.holding.share(), entry.plan, entry.provenance, Timings(), CacheOutcome.HIT)

    def plan_of(self, key: ContentKey) -> ImagePlan | None:
        """What the stored features are; None where there are none. The entry is no more recently used for it."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else entry.plan

    def put(self, key: ContentKey, features: Features) -> None:
        """Keep a share of features, unless they are larger than the whole store or are there already."""
        with self._lock:
            if self._is_closed or key in self._entries:
                return
            charged_bytes = block_bytes(features.holding.rows.size_bytes)
            if charged_bytes > self._limit_bytes:
                return
            dropped: list[Holding] = []
            while self._stored_bytes + charged_bytes > self._limit_bytes:
                dropped.append(self._drop(next(iter(self._entries))))
            self._entries[key] = _Entry(features.holding.share(), features.plan, features.provenance)
            self._stored_bytes += charged_bytes
        _release_all(dropped)

    def evict(self, predicate: Callable[[Rows], bool], size_bytes: int) -> int:
        """Free memory: drop least recently used entries that only the store holds and whose rows satisfy `predicate`.

        Ends as soon as `size_bytes` are freed. Returns the bytes of the rows that were freed. `predicate` must be quick
        and must not use the store.
        """
        dropped: list[Holding] = []
        freed_bytes = 0
        with self._lock:
            for key, entry in list(self._entries.items()):
                if freed_bytes >= size_bytes:
                    break
                if not entry.is_held_by_others and predicate(entry.holding.rows):
                    freed_bytes += entry.holding.rows.size_bytes
                    dropped.append(self._drop(key))
        _release_all(dropped)
        return freed_bytes

    def move(self, rows: Rows, moved: Holding) -> None:
        """Keep a share of `moved`, the same features in other memory, in the place of `rows`, if they are kept."""
        dropped: list[Holding] = []
        with self._lock:
            for key, entry in self._entries.items():
                if entry.holding.rows is rows:
                    self._entries[key] = replace(entry, holding=moved.share())
                    dropped.append(entry.holding)
                    break
        _release_all(dropped)

    def close(self) -> None:
        """Let go of everything, and keep nothing from now on."""
        with self._lock:
            self._is_closed = True
            dropped = [self._drop(key) for key in list(self._entries)]
        _release_all(dropped)

    def _drop(self, key: ContentKey) -> Holding:
        """Forget an entry. With the lock held; the caller releases the holding without it."""
        entry = self._entries.pop(key)
        self._stored_bytes -= entry.charged_bytes
        return entry.holding


def _release_all(holdings: list[Holding]) -> None:
    for holding in holdings:
        holding.release()
