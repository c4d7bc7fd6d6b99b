"""What a stream is opened with, and the words in which its state is told to the side that waits."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic

from monopath._carriers import NewCarrier
from monopath._enums import DataType, ResultOrder
from monopath._messages import InputT, PathAdapter
from monopath._paths import PathT

if TYPE_CHECKING:
    from monopath.v1 import config_pb2

__all__ = ["Opening", "Room", "Wish"]


@dataclass(frozen=True, slots=True)
class Opening(Generic[PathT, InputT]):
    """What every stream of one caller's stream is opened with."""

    adapter: PathAdapter[PathT, InputT]
    processor: config_pb2.ProcessorConfig
    output: config_pb2.OutputConfig
    data_type: DataType
    order: ResultOrder
    new_carrier: NewCarrier
    device_uuid: str
    max_unfinished_items: int | None
    timeout_seconds: float | None
    """Bounds all of them together."""


class Room(enum.Enum):
    """Whether an item can be sent now."""

    YES = enum.auto()
    AFTER_READING = enum.auto()
    AFTER_MOVING = enum.auto()


class Wish(enum.Enum):
    """What a received message asks of the writing side."""

    NOTHING = enum.auto()
    HALF_CLOSE = enum.auto()
    """After what is already on its way out."""
    STOP = enum.auto()
    """Half-close at once: what is still unsent is of no use any more."""
    CANCEL = enum.auto()
