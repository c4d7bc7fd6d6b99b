"""The CPU transform: prepared pixels and a plan to `pixel_values`, written into a buffer that is given."""

from __future__ import annotations

import platform
from typing import Final

import numpy as np
from llvmlite import binding
from numpy.typing import NDArray

from monopath_server.media.prepare import PreparedPixels, ResizeRoute
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.types import ElementType, GridTHW, ImagePlan, Padding, Size
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

__all__ = ["CpuTransform"]

# Rows this large leave the caches anyway; storing past them saves reading them first. Smaller ones gain more from the
# caches than from that (`bench/LOG.md`).
_STREAMED_FROM_BYTES: Final = 16 * 1024 * 1024
_STREAM_ALIGNMENT_BYTES: Final = 16
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
        resized = Size(40, 44)
        plan = self._plan(size, resized)
        pixels = np.full((size.height_px, size.width_px, 4), 127, np.uint8)
        prepared = PreparedPixels(
            pixels, has_alpha=True, already_resized=False, source_mode="RGBA", route=ResizeRoute.KERNEL
        )
        self.rows_into(prepared, plan, np.empty(plan.feature_bytes(self._element_type), np.uint8))

    def rows_into(self, prepared: PreparedPixels, plan: ImagePlan, out: NDArray[np.uint8]) -> None:
        """Write the image's `pixel_values` into `out`, without the GIL.

        Args:
            prepared: Pixels of the plan's original size, or of its resized size where they are resized already.
            plan: Its patch size must be the config's.
            out: uint8 [plan.feature_bytes(element_type)], contiguous and writable: (rows, 3, patch_size, patch_size)
                elements in C order, native (little) endian.

        Raises:
            ValueError: the pixels or the buffer are not what the plan needs.
        """
        plan = prepared.plan_left(plan)
        self._check(prepared, plan, out)
        pixels = prepared.pixels
        source_size, target_size = prepared.size, plan.resized_size
        horizontal, vertical = NO_HORIZONTAL_PASS, NO_VERTICAL_PASS
        readable_width_px = source_size.width_px
        if source_size != target_size:
            readable_width_px = max(readable_width_px, _NARROWEST_PX)
            if source_size.width_px != target_size.width_px:
                packed = pack_horizontal(source_size.width_px, target_size.width_px, self._weight_rule)
                horizontal = packed.weights
                readable_width_px = max(readable_width_px, packed.readable_width_px)
            if source_size.height_px != target_size.height_px:
                vertical = pack_vertical(source_size.height_px, target_size.height_px, self._weight_rule)
        if readable_width_px > source_size.width_px:
            widened = np.zeros((source_size.height_px, readable_width_px, 4), np.uint8)
            widened[:, : source_size.width_px] = pixels
            pixels = widened

        address = out.ctypes.data
        is_streamed = (
            plan.patch_size >= GROUP_PIXELS
            and out.nbytes >= _STREAMED_FROM_BYTES
            and address % _STREAM_ALIGNMENT_BYTES == 0
        )
        run_kernel(
            SourcePixels(pixels.ctypes.data, pixels.strides[0], readable_width_px, source_size.height_px),
            Target(
                address,
                target_size.width_px,
                target_size.height_px,
                plan.grid_thw.h,
                plan.grid_thw.w,
                plan.patch_size,
                plan.window_size,
                plan.temporal_copies or 1,
                is_streamed,
            ),
            horizontal,
            vertical,
            vertical_first(self._arithmetic.resample_kernel, source_size, target_size),
            self._blends[source_size != target_size] if prepared.has_alpha else self._opaque,
            self._writer,
        )

    def _check(self, prepared: PreparedPixels, plan: ImagePlan, out: NDArray[np.uint8]) -> None:
        pixels = prepared.pixels
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 4 or pixels.strides[1:] != (4, 1):
            raise ValueError(f"Expected uint8 pixels of 4 bytes, got {pixels.dtype} {pixels.shape} {pixels.strides}")
        expected_size = plan.resized_size if prepared.already_resized else plan.original_size
        if prepared.size != expected_size:
            raise ValueError(f"Expected {expected_size} pixels, got {prepared.size}")
        arithmetic = self._arithmetic
        layout = (plan.patch_size, plan.window_size, plan.temporal_copies or 1)
        if layout != (arithmetic.patch_size, arithmetic.window_size, arithmetic.temporal_copies):
            raise ValueError(
                f"Expected a plan of patch size {arithmetic.patch_size}, window size {arithmetic.window_size} "
                f"and {arithmetic.temporal_copies} temporal copies, got {layout}"
            )
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

    def _plan(self, size: Size, resized: Size) -> ImagePlan:
        """A plan of whole windows around an image."""
        arithmetic = self._arithmetic
        window_px = arithmetic.window_size * arithmetic.patch_size
        padding = Padding(-resized.width_px % window_px, -resized.height_px % window_px)
        grid = GridTHW(
            1,
            (resized.height_px + padding.bottom_px) // arithmetic.patch_size,
            (resized.width_px + padding.right_px) // arithmetic.patch_size,
        )
        return ImagePlan(
            size,
            resized,
            padding,
            grid,
            grid.patch_count,
            arithmetic.patch_size,
            arithmetic.temporal_copies,
            arithmetic.window_size,
        )

    def _choose_writer(self) -> None:
        """Take the closed form where it gives the table's own bytes for all 256 values in all channels, on this CPU."""
        closed_form = _CLOSED_FORMS.get(self._element_type)
        if closed_form is None or self._arithmetic.patch_size < GROUP_PIXELS or not _has_fused_multiply_add():
            return
        size = Size(256, self._arithmetic.patch_size)
        pixels = np.zeros((size.height_px, size.width_px, 4), np.uint8)
        pixels[..., :3] = np.arange(256, dtype=np.uint8)[None, :, None]
        plan = self._plan(size, size)
        prepared = PreparedPixels(
            pixels, has_alpha=False, already_resized=True, source_mode="RGB", route=ResizeRoute.KERNEL
        )
        by_table = np.empty(plan.feature_bytes(self._element_type), np.uint8)
        in_closed_form = np.empty_like(by_table)
        self.rows_into(prepared, plan, by_table)
        table_writer = self._writer
        self._writer = table_writer._replace(kind=closed_form)
        self.rows_into(prepared, plan, in_closed_form)
        if not np.array_equal(by_table, in_closed_form):
            self._writer = table_writer


def _has_fused_multiply_add() -> bool:
    """Tell whether the closed forms are instructions here; elsewhere they would be calls, and slower than the table."""
    if platform.machine().lower() in ("x86_64", "amd64"):
        return bool(binding.get_host_cpu_features().get("fma", False))
    return True
