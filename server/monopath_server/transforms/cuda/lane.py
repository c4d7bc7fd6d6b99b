"""One lane: a stream with its own buffers, through which launches pass one behind the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from monopath_server.processors.types import RowLayout
from monopath_server.transforms.cuda.buffer import GrowingBuffer
from monopath_server.transforms.cuda.device import TransformDevice
from monopath_server.transforms.cuda.layout import BatchLayout, TileShape, filter_constants, lay_out, write_constants
from monopath_server.transforms.cuda.strips import Strip
from monopath_server.transforms.cuda.tables import DeviceTables
from monopath_server.transforms.cuda.windows import AxisKey, AxisWindows

__all__ = ["Lane", "LaunchSettings", "StripPixels", "StripRows"]

StripPixels = Callable[[Strip], NDArray[np.uint8]]
"""The source rows of a strip: uint8 [rows, width, 4]."""
StripRows = Callable[[Strip], NDArray[np.uint8] | torch.Tensor]
"""The memory that takes the rows of features of a strip, of the host or of the device: uint8 [output_bytes]."""

COEFFICIENT_WORDS = 2 * 1024 * 1024
"""Coefficients a lane keeps on the device, in words; the largest single axis takes about a fifth of it."""


_HostRow: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.uint8]]
"""Memory of the host that takes rows, and the pinned memory they come from."""


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    """What all launches of one transform have in common."""

    layout: RowLayout
    raw_dtype: torch.dtype
    """Integer type of an element's raw bits."""
    tiles: TileShape
    tables: DeviceTables


class Lane:
    """Buffers that grow with need and are reused, and the coefficients that are on the device already.

    Everything of a lane happens on its own stream, in order, so nothing has to be waited for but the results. Two lanes
    overlap: one copies while the other computes. Not thread safe.
    """

    def __init__(self, device: TransformDevice, launch_bytes: int) -> None:
        """Make a lane on a device, for launches whose strips usually take up to `launch_bytes` there."""
        self._device = device
        self._stream = device.new_stream()
        self._pending: tuple[_HostRow, ...] | None = None
        self._host_input = GrowingBuffer(device.allocate_host)
        self._host_output = GrowingBuffer(device.allocate_host)
        self._device_buffer = GrowingBuffer(device.allocate_device, launch_bytes)
        self._device_output = GrowingBuffer(device.allocate_device, launch_bytes)
        self._coefficients = GrowingBuffer(device.allocate_device, COEFFICIENT_WORDS * 4)
        self._coefficient_offsets: dict[AxisKey, int] = {}
        self._coefficient_end = 0

    def start(
        self, settings: LaunchSettings, strips: Sequence[Strip], pixels_of: StripPixels, rows_of: StripRows
    ) -> int:
        """Finish the launch before, then queue the copy in, the kernels and the copy out, and return.

        Returns:
            The number of kernels launched: one where no image is resized, else two.

        Raises:
            Exception: as `is_out_of_memory` tells, the device has no memory; the lane must then be released.
        """
        self.finish()
        with self._stream.active():
            new_windows = self._reserve_coefficients(strips)
            layout = lay_out(strips, settings.tiles, self._coefficient_offsets, new_windows)
            host_input = self._host_input.ensure(layout.upload_bytes)
            buffer = self._device_buffer.ensure(layout.buffer_bytes)
            output = self._device_output.ensure(layout.output_bytes)
            _write_input(layout, host_input.numpy(), pixels_of)
            self._pending = ()
            launch_count = self._launch(settings, layout, host_input, buffer, output)
            self._pending = self._copy_out(layout, output, rows_of)
            self._stream.mark()
        return launch_count

    def finish(self) -> None:
        """Wait for the launch that is under way, if any, and hand out its rows.

        The host waits also where all rows stay on the device: only then is it known that they are good.
        """
        if self._pending is None:
            return
        host_rows = self._pending
        self._stream.wait()
        self._pending = None
        for rows, source in host_rows:
            rows[...] = source

    @property
    def stream_handle(self) -> int:
        """The driver's handle of the lane's stream."""
        return self._stream.handle

    def release(self) -> None:
        """Drop the launch that is under way and give all memory back; the lane can be used again."""
        self._pending = None
        try:
            with self._stream.active():
                self._stream.mark()
                self._stream.wait()
        finally:
            for buffer in (
                self._host_input,
                self._host_output,
                self._device_buffer,
                self._device_output,
                self._coefficients,
            ):
                buffer.release()
            self._coefficient_offsets = {}
            self._coefficient_end = 0

    def _copy_out(self, layout: BatchLayout, output: torch.Tensor, rows_of: StripRows) -> tuple[_HostRow, ...]:
        """Queue the copies of all rows: to the device's memory that takes them, and of the others to the host.

        Returns:
            Those of the host, each with the pinned memory from which it is to be filled once the stream is done.
        """
        host_bytes = 0
        host_rows = []
        # Where rows of the host lie one behind the other in the output, they go in one copy.
        host_copies: list[tuple[int, int]] = []
        for strip, offset in zip(layout.strips, layout.output_offsets, strict=True):
            rows, size_bytes = rows_of(strip), strip.output_bytes
            if isinstance(rows, torch.Tensor):
                rows.copy_(output[offset : offset + size_bytes], non_blocking=True)
                continue
            host_rows.append((rows, host_bytes))
            if host_copies and sum(host_copies[-1]) == offset:
                host_copies[-1] = (host_copies[-1][0], host_copies[-1][1] + size_bytes)
            else:
                host_copies.append((offset, size_bytes))
            host_bytes += size_bytes
        if not host_rows:
            return ()
        host_output = self._host_output.ensure(host_bytes)
        place = 0
        for offset, size_bytes in host_copies:
            host_output[place : place + size_bytes].copy_(output[offset : offset + size_bytes], non_blocking=True)
            place += size_bytes
        pinned = host_output.numpy()
        return tuple((rows, pinned[begin : begin + rows.nbytes]) for rows, begin in host_rows)

    def _reserve_coefficients(self, strips: Sequence[Strip]) -> tuple[AxisWindows, ...]:
        """Give every axis a place on the device, and return those whose coefficients are not there yet."""
        needed = {
            resize_pass.windows.key: resize_pass.windows for strip in strips for resize_pass in strip.image.passes
        }
        new = [windows for key, windows in needed.items() if key not in self._coefficient_offsets]
        new_words = sum(windows.coefficients.size for windows in new)
        if (self._coefficient_end + new_words) * 4 > self._coefficients.size_bytes:
            # Start over: the stream still runs what uses the old ones before it overwrites them.
            new = list(needed.values())
            new_words = sum(windows.coefficients.size for windows in new)
            self._coefficients.ensure(max(new_words, COEFFICIENT_WORDS) * 4)
            self._coefficient_offsets = {}
            self._coefficient_end = 0
        for windows in new:
            self._coefficient_offsets[windows.key] = self._coefficient_end
            self._coefficient_end += windows.coefficients.size
        return tuple(new)

    def _launch(
        self,
        settings: LaunchSettings,
        layout: BatchLayout,
        host_input: torch.Tensor,
        buffer: torch.Tensor,
        output: torch.Tensor,
    ) -> int:
        """Queue one copy to the device and one or two kernels; `output` takes the rows of all strips."""
        tiles, tables = settings.tiles, settings.tables
        words = buffer.view(torch.int32)
        # The kernels take the pointer even where nothing is resized.
        coefficients = self._coefficients.ensure(COEFFICIENT_WORDS * 4).view(torch.int32)
        buffer[: layout.upload_bytes].copy_(host_input[: layout.upload_bytes], non_blocking=True)
        if layout.new_windows:
            word_count = sum(windows.coefficients.size for windows in layout.new_windows)
            first_word = layout.coefficients_offset // 4
            place = slice(self._coefficient_end - word_count, self._coefficient_end)
            coefficients[place].copy_(words[first_word : first_word + word_count])
        descriptors = buffer[: layout.descriptors.nbytes].view(torch.int64)
        if len(layout.filter_tiles):
            self._device.kernels.filter_first_axis[(len(layout.filter_tiles),)](
                words,
                descriptors,
                words[layout.filter_tiles_offset // 4 :],
                coefficients,
                **filter_constants(tiles, has_alpha=layout.has_alpha),
                num_warps=tiles.filter_warps,
                enable_fp_fusion=False,
            )
        self._device.kernels.write_patches[(len(layout.write_tiles),)](
            words,
            descriptors,
            words[layout.write_tiles_offset // 4 :],
            coefficients,
            tables.square_parity,
            tables.alpha_tables,
            tables.element_table,
            output[: layout.output_bytes].view(settings.raw_dtype),
            **write_constants(
                tiles, settings.layout, has_alpha=layout.has_alpha, has_second_axis=layout.has_second_axis
            ),
            num_warps=tiles.write_warps,
            enable_fp_fusion=False,
        )
        return 2 if len(layout.filter_tiles) else 1


def _write_input(layout: BatchLayout, host_input: NDArray[np.uint8], pixels_of: StripPixels) -> None:
    """Write everything but the scratch in the order of the buffer."""

    def put(offset: int, values: NDArray[np.int64] | NDArray[np.int32]) -> int:
        host_input[offset : offset + values.nbytes] = values.reshape(-1).view(np.uint8)
        return offset + values.nbytes

    put(0, layout.descriptors)
    put(layout.filter_tiles_offset, layout.filter_tiles)
    put(layout.write_tiles_offset, layout.write_tiles)
    offset = layout.coefficients_offset
    for windows in layout.new_windows:
        offset = put(offset, windows.coefficients)
    written: set[int] = set()
    for strip, offset in zip(layout.strips, layout.source_offsets, strict=True):
        if strip.source_bytes == 0 or offset in written:
            continue
        written.add(offset)
        pixels = pixels_of(strip)
        host_input[offset : offset + strip.source_bytes].reshape(pixels.shape)[...] = pixels
