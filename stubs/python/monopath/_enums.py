"""The contract's enums as words, and the way between words and numbers.

An enum number that this release does not know stays a number, as text: `"99"`. It is never an error to receive one.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import grpc

from monopath.v1 import config_pb2, error_pb2, event_pb2, image_pb2, options_pb2, tensor_pb2

if TYPE_CHECKING:
    from google.protobuf.descriptor import EnumDescriptor, EnumValueDescriptor

__all__ = [
    "Alpha",
    "AlphaName",
    "CacheOutcome",
    "DataType",
    "DataTypeName",
    "ItemErrorReason",
    "Orientation",
    "OrientationName",
    "PixelFormat",
    "PixelFormatName",
    "ReasonTraits",
    "ResampleKernel",
    "ResampleKernelName",
    "ResultOrder",
    "ResultOrderName",
    "StreamErrorReason",
    "Transport",
    "TransportName",
    "alpha_number",
    "cache_outcome",
    "data_type_number",
    "enum_word",
    "item_error_reason",
    "member_or_word",
    "order_number",
    "orientation_number",
    "pixel_format_number",
    "reason_traits",
    "resample_kernel_number",
    "stream_error_reason",
    "transport_of",
]


class DataType(enum.StrEnum):
    """Element type of features."""

    UINT8 = "uint8"
    """Pixel values before normalisation; `Ready.normalize_table` finishes them."""
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


class ResultOrder(enum.StrEnum):
    """Order in which the items of a stream end."""

    AS_COMPLETED = "as_completed"
    AS_SENT = "as_sent"


class Transport(enum.StrEnum):
    """How features travel from the server, and images to it."""

    INLINE = "inline"
    """In messages."""
    SHARED_MEMORY = "shared_memory"
    """In memory of the host that client and server both run on; what has no room there goes inline."""
    CUDA_IPC = "cuda_ipc"
    """Features stay in the memory of the GPU that made them, which client and server both see; images go inline."""


class CacheOutcome(enum.StrEnum):
    """What the server's cache had to do with an item's features. They are the same bytes in any case."""

    BYPASSED = "bypassed"
    """Not asked: the caller did not want it, or the server has none."""
    MISS = "miss"
    """Made for this item."""
    HIT = "hit"
    """Taken from the cache."""
    JOINED = "joined"
    """Made for another item with the same content at the same time, and shared with it."""


class ResampleKernel(enum.StrEnum):
    """The resize arithmetic, to the bit: that of the Pillow release named, or torchvision's on a CPU."""

    PILLOW_11 = "pillow_11"
    PILLOW_12_2 = "pillow_12_2"
    PILLOW_13 = "pillow_13"
    ATEN_U8 = "aten_u8"


class Alpha(enum.StrEnum):
    """What becomes of an alpha channel, in families whose processor reads RGB."""

    DROP = "drop"
    """Transparent pixels have the colour that is stored for them."""
    WHITE = "white"
    """Pixels are composited on white."""


class Orientation(enum.StrEnum):
    """What to do with the orientation that a file's EXIF data name."""

    KEEP = "keep"
    APPLY = "apply"


class PixelFormat(enum.StrEnum):
    """Channels of a raw pixel, in memory order, 8 bits each."""

    GRAY8 = "GRAY8"
    GRAY_ALPHA8 = "GRAY_ALPHA8"
    RGB8 = "RGB8"
    RGBA8 = "RGBA8"


DataTypeName: TypeAlias = DataType | Literal["uint8", "float32", "bfloat16", "float16"]
ResultOrderName: TypeAlias = ResultOrder | Literal["as_completed", "as_sent"]
ResampleKernelName: TypeAlias = ResampleKernel | Literal["pillow_11", "pillow_12_2", "pillow_13", "aten_u8"]
TransportName: TypeAlias = Transport | Literal["inline", "shared_memory", "cuda_ipc"]
AlphaName: TypeAlias = Alpha | Literal["drop", "white"]
OrientationName: TypeAlias = Orientation | Literal["keep", "apply"]
PixelFormatName: TypeAlias = PixelFormat | Literal["GRAY8", "GRAY_ALPHA8", "RGB8", "RGBA8"]


class ItemErrorReason(enum.StrEnum):
    """Why one item failed: `monopath.v1.ItemErrorReason` without its prefix."""

    FIELD_INVALID = "FIELD_INVALID"
    IMAGE_EMPTY = "IMAGE_EMPTY"
    IMAGE_UNSUPPORTED = "IMAGE_UNSUPPORTED"
    IMAGE_DAMAGED = "IMAGE_DAMAGED"
    IMAGE_TOO_LARGE = "IMAGE_TOO_LARGE"
    IMAGE_BYTES_EXCEEDED = "IMAGE_BYTES_EXCEEDED"
    IMAGE_SIZE_INVALID = "IMAGE_SIZE_INVALID"
    PIXELS_SIZE_MISMATCH = "PIXELS_SIZE_MISMATCH"
    CONTENT_DIGEST_MISMATCH = "CONTENT_DIGEST_MISMATCH"
    TOKEN_COUNT_CONTRADICTION = "TOKEN_COUNT_CONTRADICTION"  # noqa: S105 - no password
    FEATURES_TOO_LARGE = "FEATURES_TOO_LARGE"
    FEATURES_MISMATCH = "FEATURES_MISMATCH"
    FEATURES_NOT_FINITE = "FEATURES_NOT_FINITE"
    FEATURES_INCOMPLETE = "FEATURES_INCOMPLETE"
    LOCATION_UNSUPPORTED = "LOCATION_UNSUPPORTED"
    HANDLE_INVALID = "HANDLE_INVALID"
    CANCELLED = "CANCELLED"
    OVERLOADED = "OVERLOADED"
    DEVICE_OUT_OF_MEMORY = "DEVICE_OUT_OF_MEMORY"
    INTERNAL = "INTERNAL"


class StreamErrorReason(enum.StrEnum):
    """Why a stream or a unary call failed: `monopath.v1.StreamErrorReason` without its prefix."""

    CONFIG_INVALID = "CONFIG_INVALID"
    CONFIG_MISSING = "CONFIG_MISSING"
    CONFIG_REPEATED = "CONFIG_REPEATED"
    PAYLOAD_UNKNOWN = "PAYLOAD_UNKNOWN"
    ITEM_ID_INVALID = "ITEM_ID_INVALID"
    REQUEST_INVALID = "REQUEST_INVALID"
    DEVICE_UNAVAILABLE = "DEVICE_UNAVAILABLE"
    TRANSPORT_UNAVAILABLE = "TRANSPORT_UNAVAILABLE"
    DRAINING = "DRAINING"
    OVERLOADED = "OVERLOADED"
    CLIENT_SILENT = "CLIENT_SILENT"
    REPLIES_UNREAD = "REPLIES_UNREAD"
    INTERNAL = "INTERNAL"
    CREDENTIALS_INVALID = "CREDENTIALS_INVALID"


@dataclass(frozen=True, slots=True)
class ReasonTraits:
    """What a caller may conclude from an error reason, as the contract says it."""

    code: grpc.StatusCode
    retryable: bool


_STATUS_CODES = {code.value[0]: code for code in grpc.StatusCode}
_ITEM_PREFIX = "ITEM_ERROR_REASON_"
_STREAM_PREFIX = "STREAM_ERROR_REASON_"


def enum_word(descriptor: EnumDescriptor, number: int, prefix: str) -> str:
    """Return the name of an enum number without `prefix`, or the number itself as text where it has no name."""
    value = descriptor.values_by_number.get(number)
    return str(number) if value is None else value.name.removeprefix(prefix)


def member_or_word(words: type[enum.StrEnum], word: str) -> str:
    """Return the member of `words` that equals `word`, or `word` itself where none does."""
    try:
        return words(word)
    except ValueError:
        return word


def item_error_reason(number: int) -> str:
    """Return an `ItemErrorReason`, or the number as text."""
    word = enum_word(error_pb2.ItemErrorReason.DESCRIPTOR, number, _ITEM_PREFIX)
    return member_or_word(ItemErrorReason, word)


def stream_error_reason(reason: int | str) -> str:
    """Return a `StreamErrorReason` from its number or name (with or without prefix), or the text of what was given."""
    if isinstance(reason, int):
        reason = enum_word(error_pb2.StreamErrorReason.DESCRIPTOR, reason, _STREAM_PREFIX)
    word = reason.removeprefix(_STREAM_PREFIX)
    return member_or_word(StreamErrorReason, word)


def cache_outcome(number: int) -> str | None:
    """Return a `CacheOutcome`, the number as text, or None for 0: a server that says nothing of it."""
    word = enum_word(event_pb2.CacheOutcome.DESCRIPTOR, number, "CACHE_OUTCOME_").lower()
    return member_or_word(CacheOutcome, word) if number else None


def transport_of(name: TransportName) -> Transport:
    """Return the transport, or raise ValueError."""
    return Transport(_checked(Transport, name, "transport"))


def reason_traits(reason: str, *, of_item: bool) -> ReasonTraits | None:
    """Return the traits that the contract gives a reason, None for one that this release does not know."""
    descriptor = error_pb2.ItemErrorReason.DESCRIPTOR if of_item else error_pb2.StreamErrorReason.DESCRIPTOR
    prefix = _ITEM_PREFIX if of_item else _STREAM_PREFIX
    value: EnumValueDescriptor | None = descriptor.values_by_name.get(prefix + reason)
    if value is None:
        return None
    traits = value.GetOptions().Extensions[options_pb2.traits]
    return ReasonTraits(_STATUS_CODES[traits.code], retryable=traits.retryable)


def data_type_number(name: DataTypeName) -> tensor_pb2.DataType.ValueType:
    """Return the contract's number of an element type, or raise ValueError."""
    return tensor_pb2.DataType.Value("DATA_TYPE_" + _checked(DataType, name, "data_type").upper())


def order_number(name: ResultOrderName) -> config_pb2.ResultOrder.ValueType:
    """Return the contract's number of a result order, or raise ValueError."""
    return config_pb2.ResultOrder.Value("RESULT_ORDER_" + _checked(ResultOrder, name, "order").upper())


def resample_kernel_number(name: ResampleKernelName) -> config_pb2.ResampleKernel.ValueType:
    """Return the contract's number of a resize arithmetic, or raise ValueError."""
    word = _checked(ResampleKernel, name, "resample_kernel")
    return config_pb2.ResampleKernel.Value("RESAMPLE_KERNEL_" + word.upper())


def alpha_number(name: AlphaName) -> config_pb2.AlphaPolicy.ValueType:
    """Return the contract's number of an alpha policy, or raise ValueError."""
    return config_pb2.AlphaPolicy.Value("ALPHA_POLICY_" + _checked(Alpha, name, "alpha").upper())


def orientation_number(name: OrientationName) -> config_pb2.OrientationPolicy.ValueType:
    """Return the contract's number of an orientation policy, or raise ValueError."""
    return config_pb2.OrientationPolicy.Value(
        "ORIENTATION_POLICY_" + _checked(Orientation, name, "orientation").upper()
    )


def pixel_format_number(name: PixelFormatName) -> image_pb2.PixelFormat.ValueType:
    """Return the contract's number of a pixel format, or raise ValueError."""
    return image_pb2.PixelFormat.Value("PIXEL_FORMAT_" + _checked(PixelFormat, name, "format"))


def _checked(words: type[enum.StrEnum], word: str, argument: str) -> str:
    if word not in tuple(words):
        raise ValueError(f"Expected {argument} to be one of {', '.join(words)}, got {word!r}")
    return word
