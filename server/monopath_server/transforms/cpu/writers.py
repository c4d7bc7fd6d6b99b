"""Cuts lines of pixels into patches and writes them as elements, row after row of `pixel_values`."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from monopath_server.transforms.cpu import elements, memory
from monopath_server.transforms.cpu.arguments import ElementWriter, Target
from monopath_server.transforms.cpu.vector import compiled

__all__ = [
    "WRITER_BFLOAT16",
    "WRITER_FLOAT32",
    "WRITER_TABLE",
    "WRITER_UINT8",
    "flush_patches",
    "patch_bytes",
    "write_windows",
]

# Kinds of writer. Plain numbers, since compiled code freezes them.
WRITER_TABLE: Final = 0
"""Any constants, any patch size."""
WRITER_UINT8: Final = 1
"""The pixels themselves. As the other closed forms, for patches of at least a group's width."""
WRITER_FLOAT32: Final = 2
"""Closed form for mean and std 0.5."""
WRITER_BFLOAT16: Final = 3
"""Closed form for mean and std 0.5."""

_GROUP: Final = elements.GROUP_PIXELS
_RELEASED_PATCH_SIZE: Final = elements.RELEASED_PATCH_SIZE
_RELEASED_PLANE: Final = _RELEASED_PATCH_SIZE * _RELEASED_PATCH_SIZE
_LAST_GROUP: Final = _RELEASED_PATCH_SIZE - _GROUP
_PREFETCH_BYTES: Final = 10 * _RELEASED_PATCH_SIZE * 4
# Rows of features that the places to be written to are asked for ahead: stores wait for them otherwise.
_ROWS_AHEAD: Final = 2


@compiled
def patch_bytes(target: Target, writer: ElementWriter) -> int:
    """Bytes of one row of features."""
    return 3 * target.temporal_copies * target.patch_height * target.patch_width * writer.itemsize


@compiled
def write_windows(
    pixels: int,
    pitch_bytes: int,
    window_count: int,
    target: Target,
    writer: ElementWriter,
    prefetches: bool,
    staging: NDArray[np.uint8],
    cursor: NDArray[np.int64],
) -> None:
    """Write `window_count` neighbouring windows of patches, whose first line starts at address `pixels`.

    `cursor`: int64 [address of the next element, bytes staged]; both are moved on. `staging`: uint8 buffer; where the
    target is streamed, whole cache lines leave it past the caches and the rest stays for the next patch.
    """
    window_size = target.window_size
    row_bytes = patch_bytes(target, writer)
    buffer = _aligned_address(staging)
    for _ in range(window_count):
        for row in range(window_size):
            corner = pixels + row * target.patch_height * pitch_bytes
            for _ in range(window_size):
                place = buffer + cursor[1] if target.is_streamed else cursor[0]
                _write_patch(corner, pitch_bytes, place, target, writer, prefetches)
                if target.is_streamed:
                    staged = cursor[1] + row_bytes
                    whole = staged - staged % 64
                    for offset in range(0, whole, 64):
                        memory.stream_64_bytes(buffer + offset, cursor[0] + offset)
                    memory.move_64_bytes(buffer + whole, buffer)
                    cursor[0] += whole
                    cursor[1] = staged - whole
                else:
                    cursor[0] += row_bytes
                corner += target.patch_width * 4
        pixels += window_size * target.patch_width * 4


@compiled
def flush_patches(staging: NDArray[np.uint8], cursor: NDArray[np.int64]) -> None:
    """Write what is still staged, and make streamed stores visible to other threads."""
    memory.copy_bytes(_aligned_address(staging), cursor[0], cursor[1])
    memory.fence()


@compiled
def _aligned_address(staging: NDArray[np.uint8]) -> int:
    """Return the first address in a buffer that is a multiple of 64."""
    address = staging.ctypes.data + 63
    return address - address % 64


@compiled
def _write_patch(
    pixels: int, pitch_bytes: int, place: int, target: Target, writer: ElementWriter, prefetches: bool
) -> None:
    """Write one row of features at address `place`."""
    height, width = target.patch_height, target.patch_width
    if height == _RELEASED_PATCH_SIZE and width == _RELEASED_PATCH_SIZE and target.temporal_copies == 1:
        _write_released_patch(pixels, pitch_bytes, place, writer, prefetches, not target.is_streamed)
        return
    plane_bytes = height * width * writer.itemsize
    channel_bytes = target.temporal_copies * plane_bytes
    line_bytes = width * writer.itemsize
    line = place
    for _ in range(height):
        if prefetches:
            memory.prefetch(pixels + _PREFETCH_BYTES)
        if width >= _GROUP:
            start = 0
            while start < width:
                begin = min(start, width - _GROUP)
                _write_group(pixels + begin * 4, line + begin * writer.itemsize, channel_bytes, writer)
                start += _GROUP
        else:
            _write_short_line(pixels, width, line, channel_bytes, writer)
        pixels += pitch_bytes
        line += line_bytes
    for channel in range(3):
        first = place + channel * channel_bytes
        for copy in range(1, target.temporal_copies):
            memory.copy_bytes(first, first + copy * plane_bytes, plane_bytes)


@compiled
def _write_released_patch(
    pixels: int, pitch_bytes: int, place: int, writer: ElementWriter, prefetches: bool, prefetches_target: bool
) -> None:
    """Write a patch of 14 pixels a side, once: all lengths are constants."""
    if writer.kind == WRITER_BFLOAT16:
        _write_released_bfloat16(pixels, pitch_bytes, place, prefetches, prefetches_target)
        return
    line = place
    for _ in range(_RELEASED_PATCH_SIZE):
        if prefetches:
            memory.prefetch(pixels + _PREFETCH_BYTES)
        if writer.kind == WRITER_FLOAT32:
            elements.write_float32(pixels, line, _RELEASED_PLANE * 4)
            elements.write_float32(pixels + _LAST_GROUP * 4, line + _LAST_GROUP * 4, _RELEASED_PLANE * 4)
        elif writer.kind == WRITER_UINT8:
            elements.write_uint8(pixels, line, _RELEASED_PLANE)
            elements.write_uint8(pixels + _LAST_GROUP * 4, line + _LAST_GROUP, _RELEASED_PLANE)
        elif writer.itemsize == 4:
            elements.write_line_by_table_32(pixels, writer.table_address, line, _RELEASED_PLANE * 4)
        elif writer.itemsize == 2:
            elements.write_line_by_table_16(pixels, writer.table_address, line, _RELEASED_PLANE * 2)
        else:
            elements.write_line_by_table_8(pixels, writer.table_address, line, _RELEASED_PLANE)
        pixels += pitch_bytes
        line += _RELEASED_PATCH_SIZE * writer.itemsize


@compiled
def _write_released_bfloat16(
    pixels: int, pitch_bytes: int, line: int, prefetches: bool, prefetches_target: bool
) -> None:
    """Write a released patch of the element type that most encoders take, in lines that overlap."""
    line_bytes, plane_bytes = 2 * _RELEASED_PATCH_SIZE, 2 * _RELEASED_PLANE
    ahead = line + _ROWS_AHEAD * 3 * plane_bytes
    for _ in range(_RELEASED_PATCH_SIZE - 1):
        if prefetches:
            memory.prefetch(pixels + _PREFETCH_BYTES)
        if prefetches_target:
            memory.prefetch_for_writing(ahead)
            memory.prefetch_for_writing(ahead + 64)
            ahead += 3 * line_bytes
        # Two pixels too many, which lie in this line or at the begin of the next, and whose elements the next line's
        # replace.
        elements.write_bfloat16_line(pixels, line, plane_bytes)
        pixels += pitch_bytes
        line += line_bytes
    elements.write_bfloat16(pixels, line, plane_bytes)
    elements.write_bfloat16(pixels + _LAST_GROUP * 4, line + _LAST_GROUP * 2, plane_bytes)


@compiled
def _write_group(pixels: int, target: int, channel_bytes: int, writer: ElementWriter) -> None:
    if writer.kind == WRITER_FLOAT32:
        elements.write_float32(pixels, target, channel_bytes)
    elif writer.kind == WRITER_BFLOAT16:
        elements.write_bfloat16(pixels, target, channel_bytes)
    elif writer.kind == WRITER_UINT8:
        elements.write_uint8(pixels, target, channel_bytes)
    elif writer.itemsize == 4:
        elements.write_by_table_32(pixels, writer.table_address, target, channel_bytes)
    elif writer.itemsize == 2:
        elements.write_by_table_16(pixels, writer.table_address, target, channel_bytes)
    else:
        elements.write_by_table_8(pixels, writer.table_address, target, channel_bytes)


@compiled
def _write_short_line(pixels: int, width: int, target: int, channel_bytes: int, writer: ElementWriter) -> None:
    for channel in range(3):
        table = writer.table_address + channel * 256 * writer.itemsize
        element = target + channel * channel_bytes
        for x in range(width):
            entry = table + memory.load_uint8(pixels + x * 4 + channel) * writer.itemsize
            if writer.itemsize == 4:
                memory.store_uint32(element, memory.load_uint32(entry))
            elif writer.itemsize == 2:
                memory.store_uint16(element, memory.load_uint16(entry))
            else:
                memory.store_uint8(element, memory.load_uint8(entry))
            element += writer.itemsize
