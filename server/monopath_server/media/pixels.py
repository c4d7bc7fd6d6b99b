"""Raw pixels as they travel: packed uint8, height by width by channels, their format always named."""

from __future__ import annotations

import enum

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media.limits import ImageLimits
from monopath_server.processors.types import Size

__all__ = ["PixelFormat", "check_raw_pixels", "check_size"]


class PixelFormat(enum.StrEnum):
    """Channels of a raw pixel, one byte each, in this order."""

    GRAY8 = enum.auto()
    GRAY_ALPHA8 = enum.auto()
    RGB8 = enum.auto()
    RGBA8 = enum.auto()

    @property
    def channels(self) -> int:
        """Bytes of one pixel."""
        match self:
            case PixelFormat.GRAY8:
                return 1
            case PixelFormat.GRAY_ALPHA8:
                return 2
            case PixelFormat.RGB8:
                return 3
            case PixelFormat.RGBA8:
                return 4


def check_size(size: Size, limits: ImageLimits) -> None:
    """Hold an image's size against the limits.

    Raises:
        ItemFault: IMAGE_SIZE_INVALID for a side below 1 pixel, IMAGE_TOO_LARGE over a limit.
    """
    width_px, height_px = size.width_px, size.height_px
    if width_px < 1 or height_px < 1:
        raise ItemFault(ItemReason.IMAGE_SIZE_INVALID, f"Expected sides of at least 1 pixel, got {size}")
    if max(width_px, height_px) > limits.max_side_px:
        raise ItemFault(
            ItemReason.IMAGE_TOO_LARGE, f"Expected sides of at most {limits.max_side_px} pixels, got {size}"
        )
    if width_px * height_px > limits.max_pixels:
        raise ItemFault(
            ItemReason.IMAGE_TOO_LARGE,
            f"Expected at most {limits.max_pixels} pixels, got {size} = {width_px * height_px}",
        )


def check_raw_pixels(
    width_px: int, height_px: int, pixel_format: PixelFormat, byte_count: int, limits: ImageLimits
) -> None:
    """Hold raw pixels against their own size and the limits.

    Raises:
        ItemFault: IMAGE_SIZE_INVALID for a side below 1 pixel, IMAGE_TOO_LARGE or IMAGE_BYTES_EXCEEDED over a limit,
            PIXELS_SIZE_MISMATCH where `byte_count` is not exactly height * width * channels.
    """
    size = Size(width_px, height_px)
    check_size(size, limits)
    expected_bytes = width_px * height_px * pixel_format.channels
    if byte_count != expected_bytes:
        raise ItemFault(
            ItemReason.PIXELS_SIZE_MISMATCH,
            f"Expected {expected_bytes} bytes for {size} pixels of {pixel_format.name}, got {byte_count}",
        )
    if byte_count > limits.max_encoded_bytes:
        raise ItemFault(
            ItemReason.IMAGE_BYTES_EXCEEDED, f"Expected at most {limits.max_encoded_bytes} bytes, got {byte_count}"
        )
