"""One image in, its features out: the whole checkpoint processor, written for reading and not for speed."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from monopath_server.reference.color import resized_rgb
from monopath_server.reference.config import ReferenceConfig
from monopath_server.reference.families import AnyReference, GridReference, reference_plan
from monopath_server.reference.fixed_size import FixedSizeReference
from monopath_server.reference.geometry import ReferencePlan
from monopath_server.reference.intern_vl import InternVlReference

__all__ = [
    "RawImage",
    "ReferenceFeatures",
    "UnreadableImageError",
    "normalize_pixels",
    "reference_elements",
    "reference_features",
]

RawPixelFormat = Literal["GRAY8", "GRAY_ALPHA8", "RGB8", "RGBA8"]

_RAW_MODES = {"GRAY8": ("L", 1), "GRAY_ALPHA8": ("LA", 2), "RGB8": ("RGB", 3), "RGBA8": ("RGBA", 4)}
_EXIF_ORIENTATION = 0x0112
_EXIF_TRANSPOSES = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class UnreadableImageError(ValueError):
    """The source is no image that can be decoded, or its raw pixels do not have the size they declare."""


@dataclass(frozen=True, slots=True)
class RawImage:
    """Decoded uint8 pixels, packed row by row, channels last."""

    width_px: int
    height_px: int
    pixel_format: RawPixelFormat
    data: bytes


@dataclass(frozen=True, slots=True)
class ReferenceFeatures:
    """The features of one image, and what became of its size. Sizes are (width, height) in pixels."""

    pixel_values: NDArray[Any]
    """[rows, 3, height, width], or with frames behind the 3, as raw bits: uint8, uint16 (BFLOAT16, FLOAT16) or uint32
    (FLOAT32)."""
    grid_thw: tuple[int, int, int]
    """All zero where rows are no patches."""
    token_count: int
    original_size: tuple[int, int]
    """After the EXIF orientation, where the config applies it."""
    resized_size: tuple[int, int]
    padding: tuple[int, int]
    """Pixels added on the right and at the bottom."""
    tile_grid: tuple[int, int, int] | None = None
    """Tiles across and down, and thumbnails, none or one."""
    crop: tuple[int, int, int, int] | None = None
    """What is used of the resized image: left, top, width, height. None: all of it."""


def reference_features(source: bytes | RawImage, config: AnyReference, element_type: str) -> ReferenceFeatures:
    """Runs the checkpoint's processor on an encoded or a raw image.

    Args:
        source: An encoded image (its first frame is used) or raw pixels.
        config: The checkpoint's config.
        element_type: UINT8 (not normalised), FLOAT32, BFLOAT16 or FLOAT16.

    Raises:
        UnreadableImageError: The source cannot be decoded.
        ValueError: The element type is unknown, or the config contradicts the image (see `reference_plan`).
    """
    image = _decode(source)
    if config.orientation == "APPLY":
        transpose = _EXIF_TRANSPOSES.get(image.getexif().get(_EXIF_ORIENTATION, 1))
        if transpose is not None:
            image = image.transpose(transpose)
    plan = reference_plan(config, image.width, image.height)
    return ReferenceFeatures(
        pixel_values=_pixel_values(image, plan, config, element_type),
        grid_thw=plan.grid_thw,
        token_count=plan.token_count,
        original_size=plan.original_size,
        resized_size=plan.resized_size,
        padding=plan.padding,
        tile_grid=plan.tile_grid,
        crop=plan.crop,
    )


def _decode(source: bytes | RawImage) -> Image.Image:
    if isinstance(source, RawImage):
        mode, channel_count = _RAW_MODES[source.pixel_format]
        expected_bytes = source.width_px * source.height_px * channel_count
        if expected_bytes == 0 or len(source.data) != expected_bytes:
            raise UnreadableImageError(
                f"Expected {expected_bytes} bytes for {source.width_px} x {source.height_px} pixels of "
                f"{source.pixel_format}, got {len(source.data)}"
            )
        return Image.frombytes(mode, (source.width_px, source.height_px), source.data)
    try:
        image = Image.open(io.BytesIO(source))
        image.load()
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise UnreadableImageError(f"Expected an image that can be decoded, got {len(source)} other bytes") from error
    return image


def normalize_pixels(
    pixels: NDArray[np.uint8], mean: tuple[float, float, float], std: tuple[float, float, float]
) -> NDArray[np.float32]:
    """Normalises uint8 pixels [..., 3]: each step in float64, each result cast to float32."""
    values = (pixels / 255.0).astype(np.float32)
    values = (values.astype(np.float64) - np.array(mean, np.float64)).astype(np.float32)
    return (values.astype(np.float64) * (1.0 / np.array(std, np.float64))).astype(np.float32)


def reference_elements(pixels: NDArray[np.uint8], config: AnyReference, element_type: str) -> NDArray[Any]:
    """Raw bits of the elements of uint8 pixels [..., 3]."""
    if element_type == "UINT8":
        return pixels
    with np.errstate(all="ignore"):
        if isinstance(config, ReferenceConfig):
            values = normalize_pixels(pixels, config.image_mean, config.image_std)
        else:
            values = config.normalize(pixels)
        match element_type:
            case "FLOAT32":
                return values.view(np.uint32)
            case "FLOAT16":
                return values.astype(np.float16).view(np.uint16)
            case "BFLOAT16":
                # Round to nearest, ties to even: add just under half of the last kept bit, and one if it is odd.
                bits = values.view(np.uint32)
                rounded = ((bits + np.uint32(0x7FFF) + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
                return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype(np.uint16)
            case _:
                raise ValueError(f"Expected the element type UINT8, FLOAT32, BFLOAT16 or FLOAT16, got {element_type!r}")


def _pixel_values(image: Image.Image, plan: ReferencePlan, config: AnyReference, element_type: str) -> NDArray[Any]:
    """Raw bits of the elements of every row."""
    if isinstance(config, FixedSizeReference | InternVlReference):
        elements = reference_elements(config.images(image, plan), config, element_type)
        return np.ascontiguousarray(elements.transpose(0, 3, 1, 2))
    rgb = resized_rgb(image, plan, config) if isinstance(config, ReferenceConfig) else config.rgb(image, plan)
    return _patchify(rgb, plan, config, element_type)


def _patchify(rgb: NDArray[np.uint8], plan: ReferencePlan, config: GridReference, element_type: str) -> NDArray[Any]:
    """Pads with zero pixels, normalises, and cuts into rows: of Kimi in raster order, [rows, 3, patch, patch]."""
    patch = config.patch_size
    _, grid_height, grid_width = plan.grid_thw
    canvas = np.zeros((grid_height * patch, grid_width * patch, 3), np.uint8)
    canvas[: rgb.shape[0], : rgb.shape[1]] = rgb
    if not isinstance(config, ReferenceConfig):
        return config.rows(reference_elements(canvas, config, element_type))
    bands = []
    for grid_row in range(grid_height):
        band = reference_elements(canvas[grid_row * patch : (grid_row + 1) * patch], config, element_type)
        bands.append(band.reshape(patch, grid_width, patch, 3).transpose(1, 3, 0, 2))
    return np.ascontiguousarray(np.concatenate(bands))
