"""The fused kernel: 4-byte pixels to rows of patches in one sweep. The resized image never exists as a whole.

A few filtered lines (the ring) and one line of windows of patches (the band) are live at a time, so everything but the
source and the rows stays in the caches.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from monopath_server.transforms.cpu.alpha import composite_row, is_opaque, premultiply_row
from monopath_server.transforms.cpu.arguments import (
    AlphaBlend,
    ElementWriter,
    HorizontalPass,
    SourcePixels,
    Target,
    VerticalPass,
)
from monopath_server.transforms.cpu.filters import VERTICAL_BYTES, filter_horizontally, filter_vertically
from monopath_server.transforms.cpu.memory import copy_bytes
from monopath_server.transforms.cpu.vector import compiled
from monopath_server.transforms.cpu.writers import flush_patches, patch_bytes, write_windows

__all__ = ["run_kernel"]


class _Scratch(NamedTuple):
    ring: NDArray[np.uint8]
    """The last lines that the vertical filter needs, filtered horizontally or premultiplied."""
    ring_pitch_bytes: int
    ring_lines: int
    line: NDArray[np.uint8]
    """One line between two stages."""
    row_addresses: NDArray[np.int64]
    """[ring lines]: the rows that the vertical filter reads."""
    progress: NDArray[np.int64]
    """[1]: the source row that enters the ring next."""


@compiled
def _pitch(width_px: int) -> int:
    """Bytes of a line with room for a filter's overshoot, in whole cache lines."""
    return (width_px * 4 + 127) // 64 * 64 + 64


@compiled
def _make_scratch(source: SourcePixels, target: Target, vertical: VerticalPass, filters_first: bool) -> _Scratch:
    ring_lines = max(vertical.weights.shape[1], 1)
    ring_pitch_bytes = _pitch(target.resized_width_px if filters_first else source.width_px)
    return _Scratch(
        np.zeros(ring_lines * ring_pitch_bytes, np.uint8),
        ring_pitch_bytes,
        ring_lines,
        np.zeros(_pitch(max(source.width_px, target.resized_width_px)), np.uint8),
        np.zeros(ring_lines, np.int64),
        np.zeros(1, np.int64),
    )


@compiled
def _fill_ring(
    first: int,
    count: int,
    source: SourcePixels,
    horizontal: HorizontalPass,
    filters_first: bool,
    alpha: AlphaBlend,
    has_alpha: bool,
    scratch: _Scratch,
) -> None:
    """Bring source rows up to `first + count` into the ring; rows before `first` are skipped."""
    line = scratch.line.ctypes.data
    for y in range(max(scratch.progress[0], first), first + count):
        row = source.address + y * source.pitch_bytes
        slot = scratch.ring.ctypes.data + y % scratch.ring_lines * scratch.ring_pitch_bytes
        if has_alpha:
            premultiplied = line if filters_first else slot
            premultiply_row(row, premultiplied, alpha.premultiply, source.width_px)
            row = premultiplied
        if filters_first:
            filter_horizontally(row, horizontal, slot)
    scratch.progress[0] = max(scratch.progress[0], first + count)


@compiled
def _make_line(
    y: int,
    result: int,
    source: SourcePixels,
    target: Target,
    horizontal: HorizontalPass,
    vertical: VerticalPass,
    filters_first: bool,
    alpha: AlphaBlend,
    has_alpha: bool,
    scratch: _Scratch,
) -> None:
    """Make line `y` of the resized image at address `result`; its colours are still premultiplied if they ever were."""
    needs_horizontal = horizontal.group_counts.shape[0] > 0
    line = scratch.line.ctypes.data
    line_bytes = target.resized_width_px * 4
    if vertical.first_rows.shape[0] == 0:
        row = source.address + y * source.pitch_bytes
        if has_alpha and needs_horizontal:
            premultiply_row(row, line, alpha.premultiply, source.width_px)
            row = line
    else:
        first = int(vertical.first_rows[y])
        count = int(vertical.row_counts[y])
        if filters_first or has_alpha:
            _fill_ring(first, count, source, horizontal, filters_first, alpha, has_alpha, scratch)
            for tap in range(count):
                slot = (first + tap) % scratch.ring_lines
                scratch.row_addresses[tap] = scratch.ring.ctypes.data + slot * scratch.ring_pitch_bytes
        else:
            for tap in range(count):
                scratch.row_addresses[tap] = source.address + (first + tap) * source.pitch_bytes
        # The ring holds zeros behind the last pixel, so rounding up writes zeros.
        whole_bytes = (line_bytes + VERTICAL_BYTES - 1) // VERTICAL_BYTES * VERTICAL_BYTES
        filter_vertically(
            scratch.row_addresses,
            vertical.weights.ctypes.data + y * vertical.weights.shape[1] * 4,
            count,
            whole_bytes if filters_first else source.width_px * 4,
            result if filters_first else line,
        )
        if filters_first:
            return
        row = line
    if needs_horizontal:
        filter_horizontally(row, horizontal, result)
    else:
        copy_bytes(row, result, line_bytes)


def _specialise(source_digest: str) -> Any:
    """Make the kernel; numba's cache on disk tells versions apart by the digest, which the kernel closes over.

    Numba itself only looks at the file that holds the cached function, not at the modules it calls.
    """

    def fused_rows(
        source: SourcePixels,
        target: Target,
        horizontal: HorizontalPass,
        vertical: VerticalPass,
        is_vertical_first: bool,
        alpha: AlphaBlend,
        writer: ElementWriter,
    ) -> None:
        if len(source_digest) == 0:
            return
        window_width_px = target.patch_width * target.window_size
        window_height_px = target.patch_height * target.window_size
        windows_across = target.grid_w // target.window_size
        is_resized = horizontal.group_counts.shape[0] > 0 or vertical.first_rows.shape[0] > 0
        filters_first = horizontal.group_counts.shape[0] > 0 and not is_vertical_first
        # Alpha 255 everywhere gives the bytes of RGB, without the detour.
        has_alpha = alpha.is_present and not is_opaque(source)
        scratch = _make_scratch(source, target, vertical, filters_first)
        band_pitch_bytes = _pitch(windows_across * window_width_px)
        band = np.zeros(window_height_px * band_pitch_bytes, np.uint8)
        staging = np.zeros(patch_bytes(target, writer) + 256, np.uint8)
        cursor = np.array([target.address, 0], np.int64)

        for window_y in range(target.grid_h // target.window_size):
            top = window_y * window_height_px
            line_count = max(min(window_height_px, target.resized_height_px - top), 0)
            done = 0
            if line_count < window_height_px:
                band[:] = 0
            elif not is_resized and not has_alpha:
                # Whole windows of an image that is only cut need no band.
                done = target.resized_width_px // window_width_px
                pixels = source.address + top * source.pitch_bytes
                write_windows(pixels, source.pitch_bytes, done, target, writer, True, staging, cursor)
            if done == windows_across:
                continue
            skipped_bytes = done * window_width_px * 4
            for line in range(line_count):
                result = band.ctypes.data + line * band_pitch_bytes
                if done > 0:
                    row = source.address + (top + line) * source.pitch_bytes + skipped_bytes
                    copy_bytes(row, result + skipped_bytes, target.resized_width_px * 4 - skipped_bytes)
                else:
                    _make_line(
                        top + line,
                        result,
                        source,
                        target,
                        horizontal,
                        vertical,
                        filters_first,
                        alpha,
                        has_alpha,
                        scratch,
                    )
                if has_alpha:
                    composite_row(result, top + line, target.resized_width_px, alpha)
            pixels = band.ctypes.data + skipped_bytes
            write_windows(pixels, band_pitch_bytes, windows_across - done, target, writer, False, staging, cursor)
        if target.is_streamed:
            flush_patches(staging, cursor)
        # Numba frees an array after its last visible use, and an address taken from it is none.
        band[0] = 0

    try:
        return numba.njit(nogil=True, error_model="numpy", cache=True)(fused_rows)
    except RuntimeError:
        # Nowhere to write: the kernel is compiled in every process, which takes seconds.
        return numba.njit(nogil=True, error_model="numpy")(fused_rows)


def _source_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


run_kernel = _specialise(_source_digest())
"""run_kernel(source: SourcePixels, target: Target, horizontal: HorizontalPass, vertical: VerticalPass,
is_vertical_first: bool, alpha: AlphaBlend, writer: ElementWriter) -> None

Writes target.grid_h * target.grid_w rows of 3 * temporal_copies * patch_height * patch_width elements from
target.address on. Every buffer that an address stands for must be kept alive by the caller.
"""
