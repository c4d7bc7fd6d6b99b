"""Cuts lines of pixels into patches and writes them as elements, row after row of `pixel_values`."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from monopath_server.transforms.cpu import elements, memory
from monopath_server.transforms.cpu.arguments import ElementWriter, Target
from monopath_server.transforms.cpu.vector import compiled

__all__ = ["WRITER_BFLOAT16", "WRITER_FLOAT32", "WRITER_TABLE", "WRITER_UINT8", "flush_patches", "write_patches"]

# Kinds of writer. Plain numbers, since compiled code freezes them.
WRITER_TABLE: Final = 0
"""Any constants, any patch size."""
WRITER_UINT8: Final = 1
"""Patch size 14, the pixels themselves."""
WRITER_FLOAT32: Final = 2
"""Patch size 14, closed form for mean and std 0.5."""
WRITER_BFLOAT16: Final = 3
"""Patch size 14, closed form for mean and std 0.5."""

_VECTOR_PATCH_SIZE: Final = elements.VECTOR_PATCH_SIZE
_PREFETCH_BYTES: Final = 10 * _VECTOR_PATCH_SIZE * 4


@compiled
def write_patches(
    pixels: int,
    pitch_bytes: int,
    patch_count: int,
    target: Target,
    writer: ElementWriter,
    prefetches: bool,
    staging: NDArray[np.uint8],
    cursor: NDArray[np.int64],
) -> None:
    """Write `patch_count` neighbouring patches, whose first line starts at address `pixels`.

    `cursor`: int64 [address of the next element, bytes staged]; both are moved on. `staging`: uint8 buffer; where the
    target is streamed, whole cache lines leave it past the caches and the rest stays for the next patch.
    """
    patch_size = target.patch_size
    patch_bytes = 3 * patch_size * patch_size * writer.itemsize
    buffer = _aligned_address(staging)
    for _ in range(patch_count):
        place = buffer + cursor[1] if target.is_streamed else cursor[0]
        _write_patch(pixels, pitch_bytes, patch_size, place, writer, prefetches)
        pixels += patch_size * 4
        if target.is_streamed:
            staged = cursor[1] + patch_bytes
            whole = staged - staged % 64
            for offset in range(0, whole, 64):
                memory.stream_64_bytes(buffer + offset, cursor[0] + offset)
            memory.move_64_bytes(buffer + whole, buffer)
            cursor[0] += whole
            cursor[1] = staged - whole
        else:
            cursor[0] += patch_bytes


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
    pixels: int, pitch_bytes: int, patch_size: int, target: int, writer: ElementWriter, prefetches: bool
) -> None:
    if patch_size != _VECTOR_PATCH_SIZE:
        _write_patch_of_any_size(pixels, pitch_bytes, patch_size, target, writer)
        return
    table = writer.table_address
    line_bytes = _VECTOR_PATCH_SIZE * writer.itemsize
    for _ in range(_VECTOR_PATCH_SIZE):
        if prefetches:
            memory.prefetch(pixels + _PREFETCH_BYTES)
        if writer.kind == WRITER_FLOAT32:
            elements.write_line_float32(pixels, target)
        elif writer.kind == WRITER_BFLOAT16:
            elements.write_line_bfloat16(pixels, target)
        elif writer.kind == WRITER_UINT8:
            elements.write_line_uint8(pixels, target)
        elif writer.itemsize == 4:
            elements.write_line_by_table_32(pixels, table, target)
        elif writer.itemsize == 2:
            elements.write_line_by_table_16(pixels, table, target)
        else:
            elements.write_line_by_table_8(pixels, table, target)
        pixels += pitch_bytes
        target += line_bytes


@compiled
def _write_patch_of_any_size(
    pixels: int, pitch_bytes: int, patch_size: int, target: int, writer: ElementWriter
) -> None:
    for channel in range(3):
        table = writer.table_address + channel * 256 * writer.itemsize
        for y in range(patch_size):
            line = pixels + y * pitch_bytes + channel
            for x in range(patch_size):
                entry = table + memory.load_uint8(line + x * 4) * writer.itemsize
                if writer.itemsize == 4:
                    memory.store_uint32(target, memory.load_uint32(entry))
                elif writer.itemsize == 2:
                    memory.store_uint16(target, memory.load_uint16(entry))
                else:
                    memory.store_uint8(target, memory.load_uint8(entry))
                target += writer.itemsize
