"""What of the CUDA kernels an image reaches: their interpreter is so slow that each thing is to be shown once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeAlias

from PIL import Image

from monopath_server.media.prepare import prepare_image
from monopath_server.transforms.cuda.device import InterpreterDevice
from monopath_server.transforms.cuda.layout import tile_shape
from monopath_server.transforms.cuda.strips import DeviceImage, device_image
from monopath_server.transforms.cuda.windows import UNROLL
from tests.families.golden import Golden

__all__ = ["branches", "enough_of"]

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}

Branch: TypeAlias = Hashable


def branches(golden: Golden) -> set[Branch]:
    """Everything that the kernels distinguish in an image: what they are compiled for, and where they turn.

    That is the size of its elements; for each sweep its layout of rows, and whether it has alpha, is padded or cut, or
    fills several programs; for each axis that is resized its place, its direction, the rule of its weights, and whether
    its windows take more than one round of taps.
    """
    # What is in the image decides nothing, so that an empty one will do.
    image = Image.new(_MODES[golden.channels], (golden.size.width_px, golden.size.height_px))
    prepared = prepare_image(image, golden.config.plan(golden.size), golden.config)
    arithmetic = golden.config.arithmetic
    found: set[Branch] = {min(element_type.itemsize for element_type in golden.digests)}
    for sweep in prepared.sweeps_left(golden.config.plan(golden.size)):
        device = device_image(0, sweep, prepared.size, arithmetic, has_alpha=prepared.has_alpha, element_bytes=1)
        axes = tuple((it.is_vertical, it.windows.tap_count > UNROLL) for it in device.passes)
        found.add((arithmetic.layout, axes))
        found.add((arithmetic.layout, prepared.has_alpha, *_edges(golden, device)))
        found |= {(arithmetic.resample_kernel, arithmetic.resample_filter, place, it) for place, it in enumerate(axes)}
    return found


def enough_of(goldens: Iterable[Golden]) -> list[Golden]:
    """Of all images the smaller ones that together reach every branch that any of them reaches."""
    chosen = []
    reached: set[Branch] = set()
    for golden in sorted(goldens, key=_work_px):
        more = branches(golden) - reached
        if more:
            chosen.append(golden)
            reached |= more
    return chosen


def _edges(golden: Golden, device: DeviceImage) -> tuple[bool, ...]:
    """What of its rows is no pixel, which pixels are no rows, and whether there is more than one program a kernel."""
    layout = golden.config.arithmetic.layout
    tiles = tile_shape(layout, scale=InterpreterDevice.tile_scale)
    sweep = device.sweep
    is_vertical_first = bool(device.passes) and device.passes[0].is_vertical
    scratch_height_px = sweep.crop.size.height_px if is_vertical_first else device.source_size.height_px
    return (
        sweep.grid_columns * layout.patch_width_px > sweep.crop.size.width_px,
        sweep.grid_rows * layout.patch_height_px > sweep.crop.size.height_px,
        sweep.crop.size != sweep.resized_size,
        bool(device.passes) and device.scratch_width_px > tiles.filter_columns,
        bool(device.passes) and scratch_height_px > tiles.filter_rows,
        sweep.grid_columns > tiles.patches,
    )


def _work_px(golden: Golden) -> int:
    plan = golden.config.plan(golden.size)
    return golden.size.width_px * golden.size.height_px + plan.row_count * plan.row_elements
