"""The floor: what Pillow alone takes to decode and resize. No processor that uses it can be faster than that."""

from __future__ import annotations

import io

from PIL import Image

from monopath_server.processors.types import ImagePlan

__all__ = ["decode_and_resize"]


def decode_and_resize(data: bytes, plan: ImagePlan) -> Image.Image:
    """Decode a file, and resize it where the plan does."""
    image = Image.open(io.BytesIO(data))
    image.load()
    if plan.resized_size == plan.original_size:
        return image
    return image.resize((plan.resized_size.width_px, plan.resized_size.height_px), Image.Resampling.BICUBIC)
