"""Reads an encoded image's header: its format, colour mode, size and orientation. No pixel is decoded."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from PIL import ExifTags, Image, UnidentifiedImageError

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media.bounded_reader import bounded_file
from monopath_server.media.limits import ImageLimits
from monopath_server.media.pillow import ALLOWED_FORMATS, KNOWN_MODES
from monopath_server.media.pixels import check_size
from monopath_server.media.png import find_exif_chunk
from monopath_server.media.webp import read_canvas_size
from monopath_server.processors.types import OrientationPolicy, Size

__all__ = ["ImageHeader", "OpenedFile", "open_header", "planned_size", "probe_header"]

_SIDEWAYS = frozenset((5, 6, 7, 8))
"""EXIF orientations that swap width and height."""
_LEFT_OPEN = frozenset(("JPEG",))
"""Formats of which reading the header, EXIF included, changes nothing that decoding looks at."""
_LARGEST_LEFT_OPEN_BYTES = 1024 * 1024
"""An opened file keeps copies of its metadata, up to all of it; decoding a larger one takes far longer than opening."""


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """What the header of an encoded image says."""

    format: str
    """Pillow's name of the file format: "JPEG", "PNG"."""
    mode: str
    """Pillow's name of the colour mode that the first frame is decoded to: "RGB", "P", "I;16"."""
    stored_size: Size
    """Size of the decoded image, before any EXIF orientation is applied."""
    exif_orientation: int
    """1 to 8, as in EXIF; 1 where there is none. Always 1 for a TIFF, whose orientation is a part of decoding."""


class OpenedFile:
    """A file whose header was read, to be decoded once: reading it again costs a tenth of a small image."""

    __slots__ = ("_image",)

    def __init__(self, image: Image.Image | None = None) -> None:
        self._image = image

    def take(self) -> Image.Image | None:
        """Return the file, which is the caller's from now on; None where there is none, or somebody has taken it."""
        image, self._image = self._image, None
        return image


def planned_size(header: ImageHeader, orientation: OrientationPolicy) -> Size:
    """Return the size that enters the processor.

    It is the stored one, with its sides swapped where EXIF says so and is applied.
    """
    stored = header.stored_size
    match orientation:
        case OrientationPolicy.KEEP:
            return stored
        case OrientationPolicy.APPLY:
            return Size(stored.height_px, stored.width_px) if header.exif_orientation in _SIDEWAYS else stored


def probe_header(data: bytes, limits: ImageLimits) -> ImageHeader:
    """Read the header of an encoded image and hold it against the limits.

    Nothing larger than the header is allocated. Raises as `open_header`.
    """
    header, _ = open_header(data, limits)
    return header


def open_header(data: bytes, limits: ImageLimits) -> tuple[ImageHeader, OpenedFile]:
    """Read the header of an encoded image, and leave the file open where it may be decoded as it is.

    Nothing larger than the header is allocated, and nothing larger than the file is kept.

    Raises:
        ItemFault: IMAGE_EMPTY for no bytes, IMAGE_BYTES_EXCEEDED and IMAGE_TOO_LARGE over a limit, IMAGE_UNSUPPORTED
            for a format or colour mode that is not served, IMAGE_DAMAGED for a known format with an unreadable header.
    """
    if not data:
        raise ItemFault(ItemReason.IMAGE_EMPTY, "Expected an encoded image, got 0 bytes")
    if len(data) > limits.max_encoded_bytes:
        raise ItemFault(
            ItemReason.IMAGE_BYTES_EXCEEDED,
            f"Expected at most {limits.max_encoded_bytes} encoded bytes, got {len(data)}",
        )
    canvas_size = read_canvas_size(data)
    if canvas_size is not None:
        # Pillow's WebP plugin allocates the canvas when it opens a file, so this one is checked before.
        check_size(canvas_size, limits)
    image = open_image(data)
    stays_open = image.format in _LEFT_OPEN and len(data) <= _LARGEST_LEFT_OPEN_BYTES
    with contextlib.nullcontext() if stays_open else image:
        stored_size = Size(*image.size)
        check_size(stored_size, limits)
        if image.mode not in KNOWN_MODES:
            raise ItemFault(
                ItemReason.IMAGE_UNSUPPORTED,
                f"Expected a colour mode that can be turned into RGB, got {image.mode}",
            )
        file_format = image.format or ""
        header = ImageHeader(file_format, image.mode, stored_size, _orientation(image, data))
        return header, OpenedFile(image if stays_open else None)


def open_image(data: bytes) -> Image.Image:
    """Open an encoded image without decoding it.

    Raises:
        ItemFault: IMAGE_UNSUPPORTED or IMAGE_DAMAGED.
    """
    try:
        return Image.open(bounded_file(data), formats=ALLOWED_FORMATS)
    except UnidentifiedImageError:
        known_format = _known_format(data)
    except MemoryError:
        raise ItemFault(ItemReason.OVERLOADED, "Expected memory for an image header, got none") from None
    except Exception:  # A damaged file can raise nearly anything from within Pillow's plugins.
        known_format = _known_format(data)
    if known_format is None:
        served = ", ".join(ALLOWED_FORMATS)
        raise ItemFault(ItemReason.IMAGE_UNSUPPORTED, f"Expected an image in one of {served}, got an unknown format")
    raise ItemFault(ItemReason.IMAGE_DAMAGED, f"Expected a whole {known_format} header, got a damaged one")


def _known_format(data: bytes) -> str | None:
    """Return the format that the first bytes promise, None where it is none that is served."""
    prefix = data[:16]
    for name in ALLOWED_FORMATS:
        accept = Image.OPEN[name][1]
        # A text instead of True says that this Pillow was built without the format.
        if accept is not None and accept(prefix) is True:
            return name
    return None


def _orientation(image: Image.Image, data: bytes) -> int:
    if image.format == "TIFF":
        # Pillow transposes a TIFF while it decodes it, and reports the transposed size from the beginning.
        return 1
    try:
        if image.format == "PNG" and "exif" not in image.info:
            late_exif = find_exif_chunk(data)
            if late_exif is not None:
                image.info["exif"] = b"Exif\x00\x00" + late_exif
        # The base class's method: the PNG plugin's own would decode the whole image in search of a late chunk.
        orientation: object = Image.Image.getexif(image).get(ExifTags.Base.Orientation, 1)
    except Exception:  # Damaged EXIF is no reason to refuse pixels that can be read.
        return 1
    return orientation if isinstance(orientation, int) and 1 <= orientation <= 8 else 1
