"""Decodes an encoded image: its first frame, in the colour mode it is stored in."""

from __future__ import annotations

from typing import Final

from PIL import Image

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media.header import ImageHeader, open_image
from monopath_server.processors.types import OrientationPolicy, Size

__all__ = ["decode_image"]

_TRANSPOSES: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What undoes each EXIF orientation. All of them move pixels and change none."""


def decode_image(
    data: bytes, header: ImageHeader, orientation: OrientationPolicy = OrientationPolicy.KEEP
) -> Image.Image:
    """Decode the first frame of an image whose header was probed before.

    No draft mode, no colour management, no conversion: pixels as the file stores them, in `header.mode`. Runs without
    the GIL for most of its time.

    Raises:
        ItemFault: IMAGE_DAMAGED for a file that ends early or whose data contradicts itself, OVERLOADED where there is
            no memory for its pixels.
    """
    image = open_image(data)
    try:
        image.load()
    except MemoryError:
        raise ItemFault(ItemReason.OVERLOADED, f"Expected memory for {header.stored_size} pixels, got none") from None
    except Exception:  # Damaged data raises OSError, SyntaxError, ValueError, struct.error and more.
        raise ItemFault(
            ItemReason.IMAGE_DAMAGED, f"Expected a whole {header.format} image, got a damaged one"
        ) from None
    if Size(*image.size) != header.stored_size or image.mode != header.mode:
        raise ItemFault(
            ItemReason.IMAGE_DAMAGED,
            f"Expected {header.stored_size} pixels of mode {header.mode} as in the header, "
            f"got {image.size[0]} x {image.size[1]} of mode {image.mode}",
        )
    match orientation:
        case OrientationPolicy.KEEP:
            return image
        case OrientationPolicy.APPLY:
            transpose = _TRANSPOSES.get(header.exif_orientation)
            return image if transpose is None else image.transpose(transpose)
