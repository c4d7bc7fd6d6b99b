"""Features made on this side, for the path LOCAL: with the CPU library that a server uses."""

from __future__ import annotations

import hashlib

import numpy as np

from monopath import DataType, GridThw, ItemError, LocalFeatures, RawImage, Ready, Size
from monopath.cli.faults import needs_server

try:
    from monopath_server.engine.buffers import BufferPool
    from monopath_server.engine.images import decode_planned, plan_item
    from monopath_server.engine.items import EncodedSource, ImageItem, PixelsSource
    from monopath_server.engine.workers import CancelToken
    from monopath_server.faults import ItemFault
    from monopath_server.media.limits import ImageLimits
    from monopath_server.media.pixels import PixelFormat
    from monopath_server.processors.plans import PatchGridPlan
    from monopath_server.processors.types import ElementType
    from monopath_server.serving.configs import resolve_processor
    from monopath_server.transforms.cpu import CpuTransform
except ModuleNotFoundError as error:
    raise needs_server("Making features on this side", error) from None

from monopath._records import numpy_data_type

__all__ = ["FeatureMaker"]

_IDLE_BUFFER_BYTES = 256 << 20


class FeatureMaker:
    """Turns images into features exactly as the server of an open LOCAL stream would, under that stream's config."""

    def __init__(self, ready: Ready, data_type: DataType) -> None:
        self._config = resolve_processor(ready.processor, "processor", {}).config
        self._element_type = ElementType(data_type.value)
        self._numpy_data_type = numpy_data_type(data_type)
        self._transform = CpuTransform(self._config, self._element_type)
        limits = ready.limits
        self._limits = ImageLimits(limits.max_image_side_px, limits.max_image_pixels, limits.max_image_bytes)
        self._max_feature_bytes = limits.max_feature_bytes
        self._buffers = BufferPool(_IDLE_BUFFER_BYTES)

    def features(self, image: bytes | RawImage, label: str) -> LocalFeatures:
        """Return the features of an encoded file or of raw pixels. Raises ItemError where the image has none."""
        source = _source(image)
        try:
            item = ImageItem(id=0, label=label, source=source, expected_sha256=b"")
            planned = plan_item(item, self._config, self._element_type, self._limits, self._max_feature_bytes)
            decoded = decode_planned(planned, self._config, CancelToken(), self._buffers, self._limits)
        except ItemFault as fault:
            raise ItemError(fault.reason.name, fault.message, field=fault.field, label=label) from None
        rows = np.empty(planned.feature_bytes, np.uint8)
        self._transform.rows_into(decoded.prepared, planned.plan, rows)
        decoded.release()
        plan = planned.plan
        return LocalFeatures(
            rows.view(self._numpy_data_type).reshape(plan.shape),
            original_size=Size(plan.original_size.width_px, plan.original_size.height_px),
            grid_thw=GridThw(plan.grid_thw.t, plan.grid_thw.h, plan.grid_thw.w)
            if isinstance(plan, PatchGridPlan)
            else None,
            token_count=plan.token_count,
            label=label,
            content_sha256=hashlib.sha256(source.data).digest(),
        )


def _source(image: bytes | RawImage) -> EncodedSource | PixelsSource:
    if isinstance(image, bytes):
        return EncodedSource(image)
    height_px, width_px = image.pixels.shape[:2]
    return PixelsSource(image.pixels.tobytes(), width_px, height_px, PixelFormat[image.format])
