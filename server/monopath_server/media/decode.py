"""Decodes an encoded image: its first frame, in the colour mode it is stored in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media.header import ImageHeader, open_image
from monopath_server.media.pillow_memory import PIXEL_BYTES, load_into
from monopath_server.processors.types import OrientationPolicy, Size

__all__ = ["LoadedImage", "decode_image", "decode_into", "owned_bytes"]

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


_SMALLEST_OWNED_BYTES: Final = 1024 * 1024
"""Below this Pillow's own memory is as fast: it is warm."""


@dataclass(frozen=True, slots=True)
class LoadedImage:
    """A decoded image."""

    image: Image.Image
    pixels: NDArray[np.uint8] | None
    """Its pixels, uint8 [height, width, 4], where they are in the caller's memory; byte 3 of RGB is undefined."""


def owned_bytes(header: ImageHeader) -> int:
    """Bytes of memory that `decode_into` makes use of if it is given them; 0 where that would gain nothing."""
    size_bytes = header.stored_size.width_px * header.stored_size.height_px * PIXEL_BYTES
    return size_bytes if header.mode in ("RGB", "RGBA") and size_bytes >= _SMALLEST_OWNED_BYTES else 0


def decode_image(
    data: bytes, header: ImageHeader, orientation: OrientationPolicy = OrientationPolicy.KEEP
) -> Image.Image:
    """Decode into memory of Pillow's own. Otherwise as `decode_into`."""
    return decode_into(data, header, orientation, None).image


def decode_into(
    data: bytes,
    header: ImageHeader,
    orientation: OrientationPolicy,
    memory: NDArray[np.uint8] | None,
    opened: Image.Image | None = None,
) -> LoadedImage:
    """Decode the first frame of an image whose header was probed before.

    No draft mode, no colour management, no conversion: pixels as the file stores them, in `header.mode`. Runs without
    the GIL for most of its time. `memory`, of `owned_bytes(header)`, takes the pixels where the file's decoder can
    write there; it is the image's until nobody uses it any more. `opened` is the file as `open_header` left it.

    Raises:
        ItemFault: IMAGE_DAMAGED for a file that ends early or whose data contradicts itself, OVERLOADED where there is
            no memory for its pixels.
    """
    image = opened or open_image(data)
    if image.format in ("JPEG", "MPO"):
        # In pieces, the decoder would begin a line of blocks anew wherever a piece ends.
        cast("ImageFile.ImageFile", image).decodermaxblock = len(data)
    pixels: NDArray[np.uint8] | None = None
    try:
        # The mode is checked below: a file that changes it while it is loaded contradicts itself.
        if memory is not None and image.mode == header.mode and Size(*image.size) == header.stored_size:
            pixels = load_into(image, memory)
        else:
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
            return LoadedImage(image, pixels)
        case OrientationPolicy.APPLY:
            transpose = _TRANSPOSES.get(header.exif_orientation)
            return LoadedImage(image, pixels) if transpose is None else LoadedImage(image.transpose(transpose), None)
