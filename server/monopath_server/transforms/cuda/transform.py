"""Micro-batches of prepared pixels to rows of features on a device."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media.prepare import PreparedPixels, ResizeRoute
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.types import Crop, ElementType, ImagePlan, Size, Sweep
from monopath_server.transforms.cuda.device import TransformDevice, is_out_of_memory
from monopath_server.transforms.cuda.lane import Lane, LaunchSettings
from monopath_server.transforms.cuda.lane_pool import lane_pool
from monopath_server.transforms.cuda.layout import TileShape, tile_shape
from monopath_server.transforms.cuda.strips import DeviceImage, Strip, device_image, group_into_launches
from monopath_server.transforms.cuda.tables import RAW_DTYPES, DeviceTables
from monopath_server.transforms.cuda.target import Target

__all__ = ["BatchItem", "CudaTransform"]

BatchItem = tuple[PreparedPixels, ImagePlan, Target]
"""Pixels, their plan, and the memory of `plan.feature_bytes` that takes the rows, of the host or of the device."""

_Work: TypeAlias = tuple[PreparedPixels, tuple[Sweep, ...], Target]

DEFAULT_SCRATCH_BYTES = 512 * 1024 * 1024


class CudaTransform:
    """Transforms images of one config and element type on one device.

    Thread safe; batches run one at a time on a device, with buffers that all of its transforms share.
    """

    def __init__(
        self,
        config: ProcessorConfig,
        element_type: ElementType,
        device: TransformDevice,
        *,
        max_scratch_bytes: int = DEFAULT_SCRATCH_BYTES,
        tiles: TileShape | None = None,
    ) -> None:
        """Make the tables and put them on the device.

        Args:
            config: The processor's config.
            element_type: Type of the features' elements.
            device: Where to run.
            max_scratch_bytes: Device memory for pixels, scratch and output of all launches under way, of all transforms
                that name the same bound. A larger batch is cut, and a larger image too; only a row of patches always
                goes whole. Coefficients, tile lists and tables come on top: about 20 MB.
            tiles: Tiles of the kernels, where not the fixed ones of the patch size.
        """
        self.config = config
        self._arithmetic = arithmetic = config.arithmetic
        self.element_type = element_type
        self.launch_count = 0
        """Kernels launched so far: at most two for a batch that is not cut."""
        self._device = device
        self._pool = lane_pool(device, max_scratch_bytes)
        with device.new_stream().active():
            tables = DeviceTables.upload(arithmetic, element_type, device)
        self._settings = LaunchSettings(
            layout=arithmetic.layout,
            raw_dtype=RAW_DTYPES[element_type],
            tiles=tiles or tile_shape(arithmetic.layout, scale=device.tile_scale),
            tables=tables,
        )

    def run_batch(self, items: Sequence[BatchItem]) -> tuple[ItemFault | None, ...]:
        """Write the rows of every item into its memory, and return what went wrong for each, in order.

        Rows that stay on the device are complete when this returns, too.

        An item for which the device has no memory even alone gets DEVICE_OUT_OF_MEMORY; the others are done, and the
        next batch finds all buffers free.

        Raises:
            ValueError: pixels or memory do not have the size of the plan.
        """
        for item in items:
            self._check(item)
        return self._run([(prepared, prepared.sweeps_left(plan), target) for prepared, plan, target in items])

    def _run(self, items: Sequence[_Work]) -> tuple[ItemFault | None, ...]:
        faults: list[ItemFault | None] = [None] * len(items)
        images: list[DeviceImage] = []
        for index, (prepared, sweeps, _) in enumerate(items):
            try:
                images += [self._device_image(index, prepared, sweep) for sweep in sweeps]
            except ItemFault as fault:
                faults[index] = fault
        with self._device.lock:
            try:
                self._run_groups(images, items, faults)
            except BaseException:
                # A device that has failed for good fails here again; the first error is the one to tell.
                with contextlib.suppress(RuntimeError):
                    self._pool.release()
                raise
        return tuple(faults)

    def warm_up(self) -> None:
        """Compile, or load from Triton's cache, every variant of the kernels that a batch can need."""
        for has_alpha in (False, True):
            for resizes in (False, True):
                self._run([self._warm_up_work(has_alpha=has_alpha, resizes=resizes)])

    def release(self) -> None:
        """Give the device's buffers back; its transforms can still be used, and then take new ones."""
        with self._device.lock:
            self._pool.release()

    def _warm_up_work(self, *, has_alpha: bool, resizes: bool) -> _Work:
        layout = self._arithmetic.layout
        window_size = layout.window_size
        target = Size(layout.patch_width_px * window_size, layout.patch_height_px * window_size)
        source = Size(target.width_px * 2 + 1, target.height_px * 2 + 1) if resizes else target
        prepared = PreparedPixels(
            pixels=np.zeros((source.height_px, source.width_px, 4), np.uint8),
            has_alpha=has_alpha,
            already_resized=False,
            source_mode="RGBA" if has_alpha else "RGB",
            route=ResizeRoute.KERNEL,
        )
        sweep = Sweep(target, Crop(0, 0, target), window_size, window_size)
        rows = np.empty(sweep.row_count * layout.row_elements * self.element_type.itemsize, np.uint8)
        return prepared, (sweep,), rows

    def _check(self, item: BatchItem) -> None:
        prepared, plan, rows = item
        size = prepared.expected_size(plan)
        expected_shape = (size.height_px, size.width_px, 4)
        if prepared.pixels.shape != expected_shape:
            raise ValueError(f"Expected pixels of shape {expected_shape}, got {prepared.pixels.shape}")
        feature_bytes = plan.feature_bytes(self.element_type)
        shape = rows.shape if isinstance(rows, np.ndarray) else (rows.size_bytes,)
        if shape != (feature_bytes,):
            raise ValueError(f"Expected memory of shape ({feature_bytes},), got {shape}")

    def _device_image(self, index: int, prepared: PreparedPixels, sweep: Sweep) -> DeviceImage:
        return device_image(
            index,
            sweep,
            prepared.size,
            self._arithmetic,
            has_alpha=prepared.has_alpha,
            element_bytes=self.element_type.itemsize,
        )

    def _run_groups(
        self, images: Sequence[DeviceImage], items: Sequence[_Work], faults: list[ItemFault | None]
    ) -> None:
        lanes = self._pool.lanes
        for number, group in enumerate(group_into_launches(images, self._pool.launch_bytes)):
            lane = lanes[number % len(lanes)]
            strips = tuple(strip for strip in group if faults[strip.image.index] is None)
            if not strips:
                continue
            try:
                self._start(lane, strips, items)
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                self._run_one_by_one(lane, strips, items, faults)
        for lane in lanes:
            lane.finish()
        for (_, _, rows), fault in zip(items, faults, strict=True):
            if fault is None and not isinstance(rows, np.ndarray):
                # Only now: the strips of a large image went through different streams.
                rows.mark_written(lanes[0].stream_handle)

    def _run_one_by_one(
        self, lane: Lane, strips: Sequence[Strip], items: Sequence[_Work], faults: list[ItemFault | None]
    ) -> None:
        """Run what was too much together, each strip with the device to itself."""
        for other in self._pool.lanes:
            if other is not lane:
                other.finish()
        self._pool.release()
        for strip in strips:
            if faults[strip.image.index] is not None:
                continue
            try:
                self._start(lane, (strip,), items)
                lane.finish()
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                faults[strip.image.index] = ItemFault(
                    ItemReason.DEVICE_OUT_OF_MEMORY,
                    f"Expected {strip.device_bytes} free bytes on the device, got fewer",
                )
                self._pool.release()

    def _start(self, lane: Lane, strips: Sequence[Strip], items: Sequence[_Work]) -> None:
        def pixels_of(strip: Strip) -> NDArray[np.uint8]:
            image, (begin, end) = strip.image, strip.source_rows
            left_px, top_px = image.source_left_px, image.source_top_px
            columns = slice(left_px, left_px + image.source_size.width_px)
            return items[image.index][0].pixels[top_px + begin : top_px + end, columns]

        def rows_of(strip: Strip) -> NDArray[np.uint8] | torch.Tensor:
            rows = items[strip.image.index][2]
            memory = rows if isinstance(rows, np.ndarray) else rows.tensor
            begin = strip.image.first_byte + strip.output_offset_bytes
            return memory[begin : begin + strip.output_bytes]

        self.launch_count += lane.start(self._settings, strips, pixels_of, rows_of)
