"""What can be wrong with an item, a stream or a config, as plain exceptions that know nothing of gRPC.

They are raised anywhere and mapped to the wire in one place, `monopath_server.serving.status`. Reason names are those
of the contract's enums without their prefix; a test holds the two lists equal.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["ConfigFault", "ConfigViolation", "ItemFault", "ItemReason", "StreamFault", "StreamReason"]


class ItemReason(enum.StrEnum):
    """Why one item failed: `monopath.v1.ItemErrorReason` without its prefix."""

    FIELD_INVALID = enum.auto()
    IMAGE_EMPTY = enum.auto()
    IMAGE_UNSUPPORTED = enum.auto()
    IMAGE_DAMAGED = enum.auto()
    IMAGE_TOO_LARGE = enum.auto()
    IMAGE_BYTES_EXCEEDED = enum.auto()
    IMAGE_SIZE_INVALID = enum.auto()
    PIXELS_SIZE_MISMATCH = enum.auto()
    CONTENT_DIGEST_MISMATCH = enum.auto()
    TOKEN_COUNT_CONTRADICTION = enum.auto()
    FEATURES_TOO_LARGE = enum.auto()
    FEATURES_MISMATCH = enum.auto()
    FEATURES_NOT_FINITE = enum.auto()
    FEATURES_INCOMPLETE = enum.auto()
    LOCATION_UNSUPPORTED = enum.auto()
    HANDLE_INVALID = enum.auto()
    CANCELLED = enum.auto()
    OVERLOADED = enum.auto()
    DEVICE_OUT_OF_MEMORY = enum.auto()
    INTERNAL = enum.auto()


class StreamReason(enum.StrEnum):
    """Why a stream or a unary call failed: `monopath.v1.StreamErrorReason` without its prefix."""

    CONFIG_INVALID = enum.auto()
    CONFIG_MISSING = enum.auto()
    CONFIG_REPEATED = enum.auto()
    PAYLOAD_UNKNOWN = enum.auto()
    ITEM_ID_INVALID = enum.auto()
    REQUEST_INVALID = enum.auto()
    DEVICE_UNAVAILABLE = enum.auto()
    TRANSPORT_UNAVAILABLE = enum.auto()
    DRAINING = enum.auto()
    OVERLOADED = enum.auto()
    CLIENT_SILENT = enum.auto()
    REPLIES_UNREAD = enum.auto()
    INTERNAL = enum.auto()
    CREDENTIALS_INVALID = enum.auto()


@dataclass(frozen=True, slots=True)
class ConfigViolation:
    """One wrong or missing field of a config."""

    field: str
    """Path of the field as its author wrote it, e.g. `media_proc_cfg.image_std`."""
    description: str
    """What was expected and what was found."""


class ItemFault(Exception):
    """One item cannot be answered with features; its stream and its neighbours go on."""

    def __init__(self, reason: ItemReason, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.field = field
        """The request field that is wrong, where one is: `image.pixels.format`."""


class StreamFault(Exception):
    """A broken rule of the stream's grammar, or a server that cannot serve it: the stream ends with a status."""

    def __init__(self, reason: StreamReason, message: str, *, violations: tuple[ConfigViolation, ...] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.violations = violations


class ConfigFault(Exception):
    """A processor config that is refused, with every violation at once."""

    def __init__(self, violations: tuple[ConfigViolation, ...]) -> None:
        if not violations:
            raise ValueError("Expected at least one violation, got none")
        super().__init__("; ".join(f"{violation.field}: {violation.description}" for violation in violations))
        self.violations = violations
