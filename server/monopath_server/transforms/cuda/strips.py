"""Images to strips of patch rows, and strips to launches that fit into bounded device memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.processors.arithmetic import PixelArithmetic
from monopath_server.processors.types import RowLayout, Size, Sweep
from monopath_server.transforms.coefficients import WeightRule
from monopath_server.transforms.cuda.windows import AxisWindows, axis_windows
from monopath_server.transforms.pass_order import vertical_first
from monopath_server.transforms.sweep_axes import sweep_axes

__all__ = ["DeviceImage", "ResizePass", "Strip", "cut_into_strips", "device_image", "group_into_launches"]

PIXEL_BYTES = 4
_INDEX_LIMIT = 2**31
"""Offsets inside one image are int32 on the device; only where an image begins is int64."""


@dataclass(frozen=True, slots=True)
class ResizePass:
    """One filtered axis of an image."""

    is_vertical: bool
    windows: AxisWindows


@dataclass(frozen=True, slots=True)
class DeviceImage:
    """What the device has to do for one sweep of an image."""

    index: int
    """Position of the image in its batch."""
    sweep: Sweep
    """Of the image's one or two."""
    layout: RowLayout
    source_left_px: int
    """Where the pixels that are read begin in the image, as `source_top_px`."""
    source_top_px: int
    source_size: Size
    """How many are read."""
    has_alpha: bool
    passes: tuple[ResizePass, ...]
    """In their order; none where the image has its size already."""
    element_bytes: int
    """Size of one element of the output."""

    @property
    def scratch_width_px(self) -> int:
        """Width of the image between the two passes."""
        is_vertical = bool(self.passes) and self.passes[0].is_vertical
        return self.source_size.width_px if is_vertical else self.sweep.crop.size.width_px

    @property
    def source_area(self) -> tuple[int, int, int, int]:
        """What is read of the image: left, top, width and height."""
        return (self.source_left_px, self.source_top_px, self.source_size.width_px, self.source_size.height_px)

    @property
    def first_byte(self) -> int:
        """Where the sweep's rows begin in the features of the image."""
        return self.sweep.first_row * self.layout.row_elements * self.element_bytes


@dataclass(frozen=True, slots=True)
class Strip:
    """Patch rows of one sweep, with the pixel rows of the source and of the scratch that they need."""

    image: DeviceImage
    patch_rows: tuple[int, int]
    """[begin, end) of the grid."""
    source_rows: tuple[int, int]
    """[begin, end), empty where the strip is padding alone."""
    scratch_rows: tuple[int, int]
    """[begin, end), empty without a resize."""

    @property
    def source_bytes(self) -> int:
        """Pixels to copy to the device."""
        begin, end = self.source_rows
        return (end - begin) * self.image.source_size.width_px * PIXEL_BYTES

    @property
    def scratch_bytes(self) -> int:
        """Pixels between the passes."""
        begin, end = self.scratch_rows
        return (end - begin) * self.image.scratch_width_px * PIXEL_BYTES

    @property
    def output_elements(self) -> int:
        """Elements of the strip's rows of features."""
        begin, end = self.patch_rows
        return (end - begin) * self.image.sweep.grid_columns * self.image.layout.row_elements

    @property
    def output_bytes(self) -> int:
        """Size of the strip's rows of features."""
        return self.output_elements * self.image.element_bytes

    @property
    def output_offset_bytes(self) -> int:
        """Where the strip's rows begin in those of its sweep."""
        image = self.image
        return self.patch_rows[0] * image.sweep.grid_columns * image.layout.row_elements * image.element_bytes

    @property
    def device_bytes(self) -> int:
        """All device memory that grows with the strip."""
        return self.source_bytes + self.scratch_bytes + self.output_bytes


def device_image(
    index: int,
    sweep: Sweep,
    source_size: Size,
    arithmetic: PixelArithmetic,
    *,
    has_alpha: bool,
    element_bytes: int,
) -> DeviceImage:
    """Work out the passes of a sweep over `source_size` pixels, which may be the resized size already.

    Raises:
        ItemFault: FEATURES_TOO_LARGE, the image or its features cannot be indexed with 32 bits.
    """
    rule = WeightRule.of(arithmetic.resample_kernel, arithmetic.resample_filter)
    across, down = sweep_axes(source_size, sweep, rule)
    read = Size(across.source_end - across.source_begin, down.source_end - down.source_begin)
    made = sweep.crop.size
    largest = max(
        read.width_px * read.height_px,
        made.width_px * read.height_px,
        read.width_px * made.height_px,
        sweep.row_count * arithmetic.layout.row_elements,
    )
    if largest >= _INDEX_LIMIT:
        raise ItemFault(
            ItemReason.FEATURES_TOO_LARGE, f"Expected fewer than {_INDEX_LIMIT} pixels or elements, got {largest}"
        )
    passes = [
        ResizePass(is_vertical, axis_windows(axis.source_count, axis.target_count, rule, axis.stretch))
        for is_vertical, axis in ((False, across), (True, down))
        if axis.is_filtered
    ]
    if vertical_first(arithmetic.resample_kernel, source_size, sweep.resized_size):
        passes.reverse()
    return DeviceImage(
        index,
        sweep,
        arithmetic.layout,
        across.source_begin,
        down.source_begin,
        read,
        has_alpha,
        tuple(passes),
        element_bytes,
    )


def _strip(image: DeviceImage, begin: int, end: int) -> Strip:
    """The strip of the patch rows [begin, end)."""
    patch, height_px = image.layout.patch_height_px, image.sweep.crop.size.height_px
    rows = (min(begin * patch, height_px), min(end * patch, height_px))
    scratch_rows = (0, 0)
    for number, resize_pass in reversed(tuple(enumerate(image.passes))):
        if number == 0:
            scratch_rows = rows
        if resize_pass.is_vertical:
            rows = resize_pass.windows.source_range(*rows)
    return Strip(image, (begin, end), rows, scratch_rows)


def cut_into_strips(image: DeviceImage, max_device_bytes: int) -> Iterator[Strip]:
    """Yield the image whole where it fits into `max_device_bytes`, else in as few strips as fit, from the top.

    A row of windows of patches is never cut, so a strip can be larger than the bound where one such row is.
    """
    window_size = image.layout.window_size
    window_rows = image.sweep.grid_rows // window_size
    begin = 0
    while begin < window_rows:
        low, high = begin + 1, window_rows
        while low < high:
            end = (low + high + 1) // 2
            if _strip(image, begin * window_size, end * window_size).device_bytes <= max_device_bytes:
                low = end
            else:
                high = end - 1
        yield _strip(image, begin * window_size, low * window_size)
        begin = low


def group_into_launches(images: Sequence[DeviceImage], max_device_bytes: int) -> Iterator[tuple[Strip, ...]]:
    """Yield the strips of all images, in order, as groups that fit into `max_device_bytes` each."""
    group: list[Strip] = []
    group_bytes = 0
    for strip in itertools.chain.from_iterable(cut_into_strips(image, max_device_bytes) for image in images):
        if group and group_bytes + strip.device_bytes > max_device_bytes:
            yield tuple(group)
            group, group_bytes = [], 0
        group.append(strip)
        group_bytes += strip.device_bytes
    if group:
        yield tuple(group)
