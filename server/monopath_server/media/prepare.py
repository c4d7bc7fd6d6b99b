"""Turns a decoded image or raw pixels into the 4-byte pixels that every transform eats."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import assert_never

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media.composite import composite_pixels
from monopath_server.media.decode import LoadedImage
from monopath_server.media.pillow_resize import resize_in_own_mode
from monopath_server.media.pillow_view import view_pixels
from monopath_server.media.pixels import PixelFormat
from monopath_server.processors.arithmetic import PixelArithmetic
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.types import Crop, FillStage, ImagePlan, RowLayout, Size, Sweep

__all__ = ["PreparedPixels", "ResizeRoute", "prepare_image", "prepare_raw_pixels"]

_RAW_MODES = {
    PixelFormat.GRAY8: "L",
    PixelFormat.GRAY_ALPHA8: "LA",
    PixelFormat.RGB8: "RGB",
    PixelFormat.RGBA8: "RGBA",
}


class ResizeRoute(enum.StrEnum):
    """Who resizes an image."""

    KERNEL = enum.auto()
    """The transform itself, on the CPU or on the device."""
    HOST_PILLOW = enum.auto()
    """Pillow on the host, in the image's own colour mode, before the transform."""


@dataclass(frozen=True, slots=True)
class PreparedPixels:
    """Pixels that are ready for a transform."""

    pixels: NDArray[np.uint8]
    """uint8 [height, width, 4], rows of contiguous 4-byte pixels (strides (any, 4, 1)); may be read-only.

    Bytes 0..2 are red, green and blue. Byte 3 is alpha where `has_alpha`, and must be ignored where not.
    """
    has_alpha: bool
    """Whether byte 3 is an alpha that takes part: premultiply, filter, un-premultiply, then composite (or drop)."""
    already_resized: bool
    """Whether `pixels` was resized by Pillow to the plan's resized size; nothing is left to filter then."""
    source_mode: str
    """Colour mode of the image as it was decoded (Pillow's name) or sent: "RGB", "P", "I;16"."""
    route: ResizeRoute
    is_padded: bool = False
    """Whether `pixels` was padded too, in its own colour mode: nothing is left to add then."""

    def sweeps_left(self, plan: ImagePlan) -> tuple[Sweep, ...]:
        """What is left to do of a plan."""
        if not self.is_padded:
            return plan.sweeps
        return tuple(
            replace(sweep, resized_size=canvas, crop=Crop(0, 0, canvas))
            for sweep in plan.sweeps
            for canvas in (_canvas_size(sweep, plan.layout),)
        )

    def expected_size(self, plan: ImagePlan) -> Size:
        """The size that `pixels` must have."""
        return self.sweeps_left(plan)[0].resized_size if self.already_resized else plan.original_size

    @property
    def size(self) -> Size:
        """Size of `pixels`."""
        return Size(self.pixels.shape[1], self.pixels.shape[0])


def prepare_raw_pixels(
    data: bytes, size: Size, pixel_format: PixelFormat, plan: ImagePlan, config: ProcessorConfig
) -> PreparedPixels:
    """Prepare raw pixels (uint8, packed height by width by channels) that `check_raw_pixels` has passed.

    Raises:
        ItemFault: as `prepare_image`.
    """
    # The borrowed image is never handed on: it is converted, or `view_pixels` copies it.
    image = Image.frombytes(_RAW_MODES[pixel_format], (size.width_px, size.height_px), data)
    return prepare_image(image, plan, config)


def prepare_image(
    image: Image.Image, plan: ImagePlan, config: ProcessorConfig, pixels: NDArray[np.uint8] | None = None
) -> PreparedPixels:
    """Prepare a loaded image. `plan.original_size` must be its size; `pixels` is its memory, where that is ours.

    RGB, L, LA and RGBA keep their size and are left to the transform. Every other colour mode needs Pillow's own
    arithmetic: it is resized (where the plan says so) and converted here, the way the checkpoint does it.

    Raises:
        ItemFault: IMAGE_UNSUPPORTED where Pillow cannot resize or convert the colour mode.
    """
    arithmetic = config.arithmetic
    try:
        match arithmetic.fill_stage:
            case FillStage.BEFORE_RESIZE:
                return _fill_then_resize(LoadedImage(image, pixels), arithmetic)
            case FillStage.AFTER_RESIZE:
                return _resize_then_fill(LoadedImage(image, pixels), plan, arithmetic)
            case _:
                assert_never(arithmetic.fill_stage)
    except MemoryError:
        raise ItemFault(ItemReason.OVERLOADED, f"Expected memory for {plan.original_size} pixels, got none") from None
    except ValueError:
        raise ItemFault(
            ItemReason.IMAGE_UNSUPPORTED, f"Expected a colour mode that can be turned into RGB, got {image.mode}"
        ) from None


def _fill_then_resize(loaded: LoadedImage, arithmetic: PixelArithmetic) -> PreparedPixels:
    """RGB first, as Kimi-K2.5 does it: whatever the mode, the transform resizes RGB."""
    image, background = loaded.image, arithmetic.background
    if background is not None and _is_transparent(image, arithmetic):
        rgba = _pixels(loaded) if image.mode == "RGBA" else view_pixels(_convert(image, "RGBA"))
        pixels = composite_pixels(rgba, background, arithmetic.composite_rounding)
    elif image.mode in ("RGB", "RGBA"):
        # Alpha is dropped, and the transform ignores byte 3: there is nothing to convert.
        pixels = _pixels(loaded)
    else:
        pixels = view_pixels(_convert(image, "RGB"))
    return PreparedPixels(
        pixels, has_alpha=False, already_resized=False, source_mode=image.mode, route=ResizeRoute.KERNEL
    )


def _resize_then_fill(loaded: LoadedImage, plan: ImagePlan, arithmetic: PixelArithmetic) -> PreparedPixels:
    """Resize in the image's own mode, as Kimi-K3 does it, then RGB."""
    image = loaded.image
    is_filled = arithmetic.background is not None and _is_transparent(image, arithmetic)
    match image.mode:
        case "RGB":
            pixels, has_alpha, route = _pixels(loaded), False, ResizeRoute.KERNEL
        case "L" if not is_filled:
            # Filtering gray and copying it thrice is copying it thrice and filtering that.
            pixels, has_alpha, route = view_pixels(_convert(image, "RGB")), False, ResizeRoute.KERNEL
        case "RGBA":
            pixels, has_alpha, route = _pixels(loaded), True, ResizeRoute.KERNEL
        case "LA":
            pixels, has_alpha, route = view_pixels(_convert(image, "RGBA")), True, ResizeRoute.KERNEL
        case _:
            resized = resize_in_own_mode(image, plan.resized_size, arithmetic.resample_kernel)
            if arithmetic.pads_in_own_mode:
                # The mode's zero, which is the first colour of a palette, and white for inks.
                canvas = _canvas_size(plan.sweeps[0], plan.layout)
                right_px, bottom_px = canvas.width_px - resized.width, canvas.height_px - resized.height
                resized = ImageOps.expand(resized, (0, 0, right_px, bottom_px), fill=0)
            converted = _convert(resized, "RGBA" if is_filled else "RGB")
            pixels, has_alpha, route = view_pixels(converted), is_filled, ResizeRoute.HOST_PILLOW
    return PreparedPixels(
        pixels,
        has_alpha=has_alpha,
        already_resized=route is ResizeRoute.HOST_PILLOW,
        source_mode=image.mode,
        route=route,
        is_padded=route is ResizeRoute.HOST_PILLOW and arithmetic.pads_in_own_mode,
    )


def _canvas_size(sweep: Sweep, layout: RowLayout) -> Size:
    """Size of all patches of a sweep together."""
    return Size(sweep.grid_columns * layout.patch_width_px, sweep.grid_rows * layout.patch_height_px)


def _pixels(loaded: LoadedImage) -> NDArray[np.uint8]:
    return view_pixels(loaded.image) if loaded.pixels is None else loaded.pixels


def _is_transparent(image: Image.Image, arithmetic: PixelArithmetic) -> bool:
    """Tell whether the checkpoint composites the image; not every one looks at an RGB image's colour key."""
    is_looked_at = image.mode != "RGB" or arithmetic.reads_color_keys
    return is_looked_at and ("A" in image.getbands() or "transparency" in image.info)


def _convert(image: Image.Image, mode: str) -> Image.Image:
    if mode == "RGB" and "transparency" in image.info:
        # A colour key does not change a pixel of RGB, but makes Pillow search for a free key, and warn.
        image = image.copy()
        del image.info["transparency"]
    return image.convert(mode)
