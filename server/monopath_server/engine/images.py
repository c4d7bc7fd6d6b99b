"""What every deferred path does with an image before its transform: plan from the header, decode, prepare."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from monopath_server.engine.items import EncodedSource, ImageItem, PixelsSource, Provenance, Route
from monopath_server.engine.resources import Resources
from monopath_server.engine.workers import CancelToken
from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media.decode import decode_image
from monopath_server.media.header import ImageHeader, planned_size, probe_header
from monopath_server.media.limits import ImageLimits
from monopath_server.media.pixels import check_raw_pixels
from monopath_server.media.prepare import PreparedPixels, ResizeRoute, prepare_image, prepare_raw_pixels
from monopath_server.processors.digest import config_digest
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.kimi.geometry import plan_image
from monopath_server.processors.types import ElementType, ImagePlan, Size

__all__ = ["DecodedImage", "ImagePlanner", "PlannedImage", "decode_planned", "plan_item"]


@dataclass(frozen=True, slots=True)
class PlannedImage:
    """An image whose header was read, and nothing more."""

    item: ImageItem
    header: ImageHeader | None
    """None for raw pixels."""
    plan: ImagePlan
    feature_bytes: int
    planning_ns: int

    @property
    def pixel_count(self) -> int:
        """Pixels that are decoded."""
        return self.plan.original_size.width_px * self.plan.original_size.height_px

    @property
    def cost(self) -> int:
        """Work to be done, for a fair share of it: pixels that are decoded, and elements that are written."""
        return self.pixel_count + self.plan.row_count * self.plan.row_elements


@dataclass(frozen=True, slots=True)
class DecodedImage:
    """An image that is ready for its transform."""

    prepared: PreparedPixels
    content_sha256: bytes
    decoding_ns: int


def plan_item(
    item: ImageItem, config: KimiConfig, element_type: ElementType, limits: ImageLimits, max_feature_bytes: int
) -> PlannedImage:
    """Read the header, check the limits and the client's digest, and plan. No pixel is decoded.

    Raises:
        ItemFault: for an image that cannot be read or is over a limit, CONTENT_DIGEST_MISMATCH, FEATURES_TOO_LARGE.
    """
    started_ns = time.perf_counter_ns()
    header: ImageHeader | None = None
    match item.source:
        case EncodedSource(data):
            header = probe_header(data, limits)
            size = planned_size(header, config.orientation)
        case PixelsSource(data, width_px, height_px, pixel_format):
            check_raw_pixels(width_px, height_px, pixel_format, len(data), limits)
            size = Size(width_px, height_px)
    if item.expected_sha256:
        found = hashlib.sha256(data).digest()
        if found != item.expected_sha256:
            raise ItemFault(
                ItemReason.CONTENT_DIGEST_MISMATCH,
                f"Expected content of SHA-256 {item.expected_sha256.hex()}, got {found.hex()}",
                field="expected_sha256",
            )
    plan = plan_image(config, size)
    feature_bytes = plan.feature_bytes(element_type)
    if feature_bytes > max_feature_bytes:
        raise ItemFault(
            ItemReason.FEATURES_TOO_LARGE,
            f"Expected features of at most {max_feature_bytes} bytes, got {feature_bytes} for {size} pixels",
        )
    return PlannedImage(item, header, plan, feature_bytes, time.perf_counter_ns() - started_ns)


def decode_planned(planned: PlannedImage, config: KimiConfig, token: CancelToken) -> DecodedImage:
    """Hash, decode and prepare. Runs in a worker; releases the GIL for most of its time.

    Raises:
        ItemFault: IMAGE_DAMAGED, IMAGE_UNSUPPORTED, OVERLOADED.
        JobCancelled: between two stages.
    """
    started_ns = time.perf_counter_ns()
    source = planned.item.source
    content_sha256 = hashlib.sha256(source.data).digest()
    token.check()
    match source:
        case EncodedSource(data):
            if planned.header is None:
                raise TypeError("Expected a header for an encoded image, got none")
            image = decode_image(data, planned.header, config.orientation)
            token.check()
            prepared = prepare_image(image, planned.plan, config)
        case PixelsSource(data, _, _, pixel_format):
            prepared = prepare_raw_pixels(data, planned.plan.original_size, pixel_format, planned.plan, config)
    token.check()
    return DecodedImage(prepared, content_sha256, time.perf_counter_ns() - started_ns)


class ImagePlanner:
    """What the engines of the deferred paths have in common: one config, one element type, plans and provenance."""

    def __init__(self, config: KimiConfig, element_type: ElementType, resources: Resources) -> None:
        self._config = config
        self._config_sha256 = config_digest(config)
        self._element_type = element_type
        self._resources = resources

    async def plan(self, item: ImageItem) -> PlannedImage:
        """Plan from the header, before any pixel is decoded. Raises `ItemFault`."""
        limits, max_feature_bytes = self._resources.limits, self._resources.max_feature_bytes
        return await self._resources.workers.plan(
            lambda: plan_item(item, self._config, self._element_type, limits, max_feature_bytes)
        )

    def _provenance(self, decoded: DecodedImage, kernel_route: Route) -> Provenance:
        """`kernel_route` is where images go that do not need Pillow's own arithmetic."""
        return Provenance(
            config_sha256=self._config_sha256,
            content_sha256=decoded.content_sha256,
            resample_kernel=self._config.resample_kernel,
            route=kernel_route if decoded.prepared.route is ResizeRoute.KERNEL else Route.HOST_PILLOW,
        )
