"""How the features and images of one stream travel: in its messages, or in memory that both sides see."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from monopath._errors import ProtocolError
from monopath.v1 import config_pb2, location_pb2

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from monopath._leases import Lease
    from monopath._records import FeatureArray, ImagePlan
    from monopath._upload import Upload
    from monopath.v1 import event_pb2

__all__ = ["Carrier", "Features", "InlineCarrier", "MemoryHandle", "NewCarrier"]

MemoryHandle: TypeAlias = location_pb2.SharedMemoryHandle | location_pb2.CudaIpcHandle


@dataclass(frozen=True, slots=True)
class Features:
    """An item's features: an array in ordinary or shared memory, or a tensor on a GPU."""

    array: FeatureArray | None = None
    tensor: torch.Tensor | None = None
    lease: Lease | None = None
    """Of memory that is the server's."""


class Carrier(abc.ABC):
    """Carries them in messages, as far as nothing else is said. One object a stream; for one thread at a time."""

    @abc.abstractmethod
    def output(self, output: config_pb2.OutputConfig) -> config_pb2.OutputConfig:
        """Return what is asked for, with this carrier's part. Raises StreamRefused where it cannot be used here."""

    @abc.abstractmethod
    def check(self, ready: event_pb2.Ready) -> None:
        """Try what the server offers. Raises StreamRefused where it cannot be used, ProtocolError where it is none."""

    @abc.abstractmethod
    def features(self, handle: MemoryHandle, plan: ImagePlan, lease: Lease) -> Features:
        """Return the features that a handle of the plan's length leads to; the lease ends with them.

        Raises ProtocolError where it leads to none, StreamBroken where this process is out of what it takes.
        """

    def inline_features(self, array: FeatureArray) -> Features:
        """Return features that came in messages."""
        return Features(array=array)

    def can_upload(self, size_bytes: int) -> bool:
        """Return whether an item's bytes would travel in shared memory, as long as there is some."""
        return size_bytes < 0

    def begin_upload(self, wire_id: int, size_bytes: int) -> Upload | None:  # noqa: ARG002 - some have room
        """Return room for an item's bytes. None: they are to go inline."""
        return None

    def end_upload(self, wire_id: int) -> None:  # noqa: B027 - nothing to do where there was no room
        """The item has ended: the server reads its bytes no more."""

    def end(self) -> None:  # noqa: B027 - nothing to do where nothing is held
        """The stream is over. Calling it again does nothing."""


NewCarrier: TypeAlias = "Callable[[], Carrier]"
"""Makes one for each stream of the server."""


class InlineCarrier(Carrier):
    """Carries them in messages."""

    def output(self, output: config_pb2.OutputConfig) -> config_pb2.OutputConfig:
        asked = config_pb2.OutputConfig()
        asked.CopyFrom(output)
        asked.inline.SetInParent()
        return asked

    def check(self, ready: event_pb2.Ready) -> None:
        pass

    def features(self, handle: MemoryHandle, plan: ImagePlan, lease: Lease) -> Features:  # noqa: ARG002 - none is good
        raise ProtocolError("Expected features inline, got a memory handle")
