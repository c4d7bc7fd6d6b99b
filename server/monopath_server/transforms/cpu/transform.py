"""The CPU transform: prepared pixels and a plan to `pixel_values`, written into a buffer that is given."""

from __future__ import annotations

import platform
from typing import Final

import numpy as np
from llvmlite import binding
from numpy.typing import NDArray

from monopath_server.media.prepare import PreparedPixels, ResizeRoute
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.types import Crop, ElementType, ImagePlan, Size, Sweep
from monopath_server.transforms import tables
from monopath_server.transforms.coefficients import WeightRule
from monopath_server.transforms.cpu.arguments import AlphaBlend, ElementWriter, SourcePixels, Target
from monopath_server.transforms.cpu.elements import GROUP_PIXELS
from monopath_server.transforms.cpu.filters import VERTICAL_BYTES
from monopath_server.transforms.cpu.kernel import run_kernel
from monopath_server.transforms.cpu.packing import (
    NO_HORIZONTAL_PASS,
    NO_VERTICAL_PASS,
    pack_horizontal,
    pack_vertical,
)
from monopath_server.transforms.cpu.writers import WRITER_BFLOAT16, WRITER_FLOAT32, WRITER_TABLE, WRITER_UINT8
from monopath_server.transforms.pass_order import vertical_first
from monopath_server.transforms.sweep_axes import sweep_axes

__all__ = ["CpuTransform"]

# Rows this large leave the caches anyway; storing past them saves reading them first. Smaller ones gain more from the
# caches than from that (`bench/LOG.md`).
_STREAMED_FROM_BYTES: Final = 16 * 1024 * 1024
_STREAM_ALIGNMENT_BYTES: Final = 16
_WIDEST_STREAMED_PX: Final = 64
"""A patch is made whole before it is streamed, and a larger one would have left the caches by then."""
_NARROWEST_PX: Final = VERTICAL_BYTES // 4

_CLOSED_FORMS: Final = {
    ElementType.UINT8: WRITER_UINT8,
    ElementType.FLOAT32: WRITER_FLOAT32,
    ElementType.BFLOAT16: WRITER_BFLOAT16,
}


class CpuTransform:
    """Resizes, composites, pads, normalises and patchifies one image per call. Safe to use from many threads."""

    def __init__(self, config: ProcessorConfig, element_type: ElementType) -> None:
        """Make the tables of `config`. The first instance of a process compiles the kernel, or loads it from disk."""
        self._config = config
        self._arithmetic = arithmetic = config.arithmetic
        self._element_type = element_type
        self._weight_rule = WeightRule.of(arithmetic.resample_kernel, arithmetic.resample_filter)
        self._element_table = tables.element_table(
            arithmetic.image_mean, arithmetic.image_std, element_type, arithmetic.normalization
        )
        self._blends = {is_resized: self._make_blend(is_resized=is_resized) for is_resized in (False, True)}
        self._opaque = self._blends[False]._replace(is_present=False)
        self._writer = ElementWriter(WRITER_TABLE, self._element_table.ctypes.data, element_type.itemsize)
        self._choose_writer()

    @property
    def config(self) -> ProcessorConfig:
        """The config whose bytes this transform makes."""
        return self._config

    @property
    def element_type(self) -> ElementType:
        """Type of the elements it writes."""
        return self._element_type

    def warm_up(self) -> None:
        """Run every stage once, so that the first request neither compiles nor loads anything."""
        size = Size(96, 96)
        pixels = np.full((size.height_px, size.width_px, 4), 127, np.uint8)
        prepared = PreparedPixels(
            pixels, has_alpha=True, already_resized=False, source_mode="RGBA", route=ResizeRoute.KERNEL
        )
        sweep = self._whole_windows(Size(40, 44))
        self._sweep(prepared, sweep, self._new_rows(sweep))

    def rows_into(self, prepared: PreparedPixels, plan: ImagePlan, out: NDArray[np.uint8]) -> None:
        """Write the image's `pixel_values` into `out`, without the GIL.

        Args:
            prepared: Pixels of the plan's original size, or of its resized size where they are resized already.
            plan: Its layout of rows must be the config's.
            out: uint8 [plan.feature_bytes(element_type)], contiguous and writable: elements of `plan.shape` in C order,
                native (little) endian.

        Raises:
            ValueError: the pixels or the buffer are not what the plan needs.
        """
        self._check(prepared, plan, out)
        row_bytes = plan.row_elements * self._element_type.itemsize
        for sweep in prepared.sweeps_left(plan):
            begin = sweep.first_row * row_bytes
            self._sweep(prepared, sweep, out[begin : begin + sweep.row_count * row_bytes])

    def _sweep(self, prepared: PreparedPixels, sweep: Sweep, out: NDArray[np.uint8]) -> None:
        across, down = sweep_axes(prepared.size, sweep, self._weight_rule)
        pixels = prepared.pixels[down.source_begin : down.source_end, across.source_begin : across.source_end]
        source_height_px, source_width_px = pixels.shape[:2]
        horizontal, vertical = NO_HORIZONTAL_PASS, NO_VERTICAL_PASS
        readable_width_px = source_width_px
        is_filtered = across.is_filtered or down.is_filtered
        if is_filtered:
            readable_width_px = max(readable_width_px, _NARROWEST_PX)
        if across.is_filtered:
            packed = pack_horizontal(across.source_count, across.target_count, self._weight_rule, across.stretch)
            horizontal = packed.weights
            readable_width_px = max(readable_width_px, packed.readable_width_px)
        if down.is_filtered:
            vertical = pack_vertical(down.source_count, down.target_count, self._weight_rule, down.stretch)
        if readable_width_px > source_width_px:
            widened = np.zeros((source_height_px, readable_width_px, 4), np.uint8)
            widened[:, :source_width_px] = pixels
            pixels = widened

        layout = self._arithmetic.layout
        address = out.ctypes.data
        is_streamed = (
            GROUP_PIXELS <= layout.patch_width_px <= _WIDEST_STREAMED_PX
            and layout.patch_height_px <= _WIDEST_STREAMED_PX
            and out.nbytes >= _STREAMED_FROM_BYTES
            and address % _STREAM_ALIGNMENT_BYTES == 0
        )
        run_kernel(
            SourcePixels(pixels.ctypes.data, pixels.strides[0], readable_width_px, source_height_px),
            Target(
                address,
                sweep.crop.size.width_px,
                sweep.crop.size.height_px,
                sweep.grid_rows,
                sweep.grid_columns,
                layout.patch_height_px,
                layout.patch_width_px,
                layout.window_size,
                layout.temporal_copies,
                is_streamed,
            ),
            horizontal,
            vertical,
            vertical_first(self._arithmetic.resample_kernel, prepared.size, sweep.resized_size),
            self._blends[is_filtered] if prepared.has_alpha else self._opaque,
            self._writer,
        )

    def _check(self, prepared: PreparedPixels, plan: ImagePlan, out: NDArray[np.uint8]) -> None:
        pixels = prepared.pixels
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 4 or pixels.strides[1:] != (4, 1):
            raise ValueError(f"Expected uint8 pixels of 4 bytes, got {pixels.dtype} {pixels.shape} {pixels.strides}")
        expected_size = prepared.expected_size(plan)
        if prepared.size != expected_size:
            raise ValueError(f"Expected {expected_size} pixels, got {prepared.size}")
        if plan.layout != self._arithmetic.layout:
            raise ValueError(f"Expected a plan of rows of {self._arithmetic.layout}, got {plan.layout}")
        feature_bytes = plan.feature_bytes(self._element_type)
        if out.dtype != np.uint8 or out.shape != (feature_bytes,) or not out.flags.c_contiguous:
            raise ValueError(f"Expected a flat buffer of {feature_bytes} bytes, got {out.dtype} {out.shape}")
        if not out.flags.writeable:
            raise ValueError("Expected a writable buffer, got a read-only one")

    def _make_blend(self, *, is_resized: bool) -> AlphaBlend:
        background = self._arithmetic.background
        return AlphaBlend(
            True,
            tables.premultiply_table(),
            tables.alpha_tables(background, is_resized=is_resized, rounding=self._arithmetic.composite_rounding),
            1 if background is None else background.chessboard_square_size,
            0 if background is None else tables.gray_parity(background),
        )

    def _whole_windows(self, resized: Size) -> Sweep:
        """A sweep that fills as many windows as an image of this size needs."""
        layout = self._arithmetic.layout
        window_size = layout.window_size
        return Sweep(
            resized,
            Crop(0, 0, resized),
            -(-resized.height_px // (layout.patch_height_px * window_size)) * window_size,
            -(-resized.width_px // (layout.patch_width_px * window_size)) * window_size,
        )

    def _new_rows(self, sweep: Sweep) -> NDArray[np.uint8]:
        elements = sweep.row_count * self._arithmetic.layout.row_elements
        return np.empty(elements * self._element_type.itemsize, np.uint8)

    def _choose_writer(self) -> None:
        """Take the closed form where it gives the table's own bytes for all 256 values in all channels, on this CPU."""
        closed_form = _CLOSED_FORMS.get(self._element_type)
        narrowest_px = self._arithmetic.layout.patch_width_px
        if closed_form is None or narrowest_px < GROUP_PIXELS or not _has_fused_multiply_add():
            return
        size = Size(256, self._arithmetic.layout.patch_height_px)  # its last line is written in another way
        pixels = np.zeros((size.height_px, size.width_px, 4), np.uint8)
        pixels[..., :3] = np.arange(256, dtype=np.uint8)[None, :, None]
        prepared = PreparedPixels(
            pixels, has_alpha=False, already_resized=True, source_mode="RGB", route=ResizeRoute.KERNEL
        )
        sweep = self._whole_windows(size)
        by_table, in_closed_form = self._new_rows(sweep), self._new_rows(sweep)
        self._sweep(prepared, sweep, by_table)
        table_writer = self._writer
        self._writer = table_writer._replace(kind=closed_form)
        self._sweep(prepared, sweep, in_closed_form)
        if not np.array_equal(by_table, in_closed_form):
            self._writer = table_writer


def _has_fused_multiply_add() -> bool:
    """Tell whether the closed forms are instructions here; elsewhere they would be calls, and slower than the table."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        return bool(binding.get_host_cpu_features().get("fma", False))
    return True
