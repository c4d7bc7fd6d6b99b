"""What an image may be before it is looked at any further."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ImageLimits"]


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """Limits that are checked from an image's header, before any of its pixels has memory."""

    max_side_px: int = 65_535
    max_pixels: int = 64 * 1024 * 1024
    max_encoded_bytes: int = 64 * 1024 * 1024
    """Size of the encoded file, or of raw pixels, in bytes."""
