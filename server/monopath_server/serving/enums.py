"""The contract's enums and the plain ones inside, which have the same names without the prefix."""

from __future__ import annotations

import enum
from typing import Generic, TypeVar

from google.protobuf.descriptor import EnumDescriptor

from monopath.v1 import config_pb2, error_pb2, event_pb2, image_pb2, tensor_pb2
from monopath_server.engine.items import CacheOutcome, Route
from monopath_server.faults import ItemReason, StreamReason
from monopath_server.media.pixels import PixelFormat
from monopath_server.processors.types import (
    AlphaPolicy,
    BackgroundPattern,
    ElementType,
    FillStage,
    OrientationPolicy,
    ResampleFilter,
    ResampleKernel,
)

__all__ = [
    "ALPHA_POLICIES",
    "BACKGROUND_PATTERNS",
    "CACHE_OUTCOMES",
    "DATA_TYPES",
    "FILL_STAGES",
    "ITEM_REASONS",
    "ORIENTATION_POLICIES",
    "PIXEL_FORMATS",
    "RESAMPLE_FILTERS",
    "RESAMPLE_KERNELS",
    "ROUTES",
    "STREAM_REASONS",
    "EnumMap",
]

InnerT = TypeVar("InnerT", bound=enum.StrEnum)
WireT = TypeVar("WireT", bound=int)


class EnumMap(Generic[InnerT, WireT]):
    """A one-to-one map between a plain enum and one of the contract, made from their names."""

    def __init__(self, inner: type[InnerT], wire: EnumDescriptor, wire_type: type[WireT]) -> None:
        prefix = wire.values[0].name.removesuffix("UNSPECIFIED")
        numbers = {value.name.removeprefix(prefix): value.number for value in wire.values if value.number != 0}
        if numbers.keys() != {member.name for member in inner}:
            raise TypeError(f"Expected {inner.__name__} to have the names of {wire.name}, got other ones")
        # At run time the contract's enum values are plain ints, and so is their type.
        self._to_wire: dict[InnerT, WireT] = {member: wire_type(numbers[member.name]) for member in inner}
        self._to_inner: dict[int, InnerT] = {number: member for member, number in self._to_wire.items()}

    def to_wire(self, member: InnerT) -> WireT:
        return self._to_wire[member]

    def to_inner(self, number: int) -> InnerT:
        """Raises `KeyError` for a number that `find_violations` refuses."""
        return self._to_inner[number]


DATA_TYPES = EnumMap(ElementType, tensor_pb2.DataType.DESCRIPTOR, tensor_pb2.DataType.ValueType)
RESAMPLE_KERNELS = EnumMap(ResampleKernel, config_pb2.ResampleKernel.DESCRIPTOR, config_pb2.ResampleKernel.ValueType)
RESAMPLE_FILTERS = EnumMap(ResampleFilter, config_pb2.ResampleFilter.DESCRIPTOR, config_pb2.ResampleFilter.ValueType)
ORIENTATION_POLICIES = EnumMap(
    OrientationPolicy, config_pb2.OrientationPolicy.DESCRIPTOR, config_pb2.OrientationPolicy.ValueType
)
ALPHA_POLICIES = EnumMap(AlphaPolicy, config_pb2.AlphaPolicy.DESCRIPTOR, config_pb2.AlphaPolicy.ValueType)
BACKGROUND_PATTERNS = EnumMap(
    BackgroundPattern, config_pb2.BackgroundPattern.DESCRIPTOR, config_pb2.BackgroundPattern.ValueType
)
FILL_STAGES = EnumMap(FillStage, config_pb2.TransparentFillStage.DESCRIPTOR, config_pb2.TransparentFillStage.ValueType)
PIXEL_FORMATS = EnumMap(PixelFormat, image_pb2.PixelFormat.DESCRIPTOR, image_pb2.PixelFormat.ValueType)
CACHE_OUTCOMES = EnumMap(CacheOutcome, event_pb2.CacheOutcome.DESCRIPTOR, event_pb2.CacheOutcome.ValueType)
ROUTES = EnumMap(Route, event_pb2.Route.DESCRIPTOR, event_pb2.Route.ValueType)
ITEM_REASONS = EnumMap(ItemReason, error_pb2.ItemErrorReason.DESCRIPTOR, error_pb2.ItemErrorReason.ValueType)
STREAM_REASONS = EnumMap(StreamReason, error_pb2.StreamErrorReason.DESCRIPTOR, error_pb2.StreamErrorReason.ValueType)
