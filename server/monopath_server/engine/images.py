"""What every deferred path does with an image before its transform: plan from the header, decode, prepare."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from monopath_server.engine.buffers import Buffer, BufferPool
from monopath_server.engine.items import EncodedSource, ImageItem, PixelsSource, Provenance, Route
from monopath_server.engine.resources import Resources
from monopath_server.engine.store import ContentKey
from monopath_server.engine.workers import CancelToken
from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media.decode import decode_into, owned_bytes
from monopath_server.media.header import ImageHeader, OpenedFile, open_header, planned_size, probe_header
from monopath_server.media.limits import ImageLimits
from monopath_server.media.pixels import check_raw_pixels
from monopath_server.media.prepare import PreparedPixels, ResizeRoute, prepare_image, prepare_raw_pixels
from monopath_server.processors.digest import config_digest
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.types import ElementType, ImagePlan, Size

__all__ = ["DecodedImage", "ImagePlanner", "PlannedImage", "Recall", "decode_planned", "plan_item"]

Recall: TypeAlias = Callable[[ContentKey], ImagePlan | None]
"""Tells the plan of content that was planned before; None where it is not remembered."""

# Raw pixels of tens of megabytes take as long to hash as to transform; files are hashed within a few milliseconds.
HASHED_WITH_PLANS_BYTES = 8 * 1024 * 1024
# This takes less than a millisecond, and a turn of a thread not much less.
HASHED_AT_ONCE_BYTES = 1024 * 1024
# This takes 20 microseconds: the event loop may do it.
HASHED_BY_LOOP_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class PlannedImage:
    """An image whose header was read, and nothing more."""

    item: ImageItem
    header: ImageHeader | None
    """None for raw pixels, and for a file whose plan was remembered."""
    plan: ImagePlan
    feature_bytes: int
    planning_ns: int
    opened: OpenedFile
    """The file, where it was left open."""
    content_sha256: bytes | None = None
    """Of the source's bytes; None as long as nobody has asked for it."""

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
    memory: Buffer | None
    """Where the pixels are, if they are in memory of the pool."""

    def release(self) -> None:
        """Give the pixels' memory back. Calling it again does nothing."""
        if self.memory is not None:
            self.memory.release()


def plan_item(
    item: ImageItem,
    config: ProcessorConfig,
    element_type: ElementType,
    limits: ImageLimits,
    max_feature_bytes: int,
    recall: Callable[[bytes], ImagePlan | None] | None = None,
    content_sha256: bytes | None = None,
) -> PlannedImage:
    """Read the header, check the limits and the client's digest, and plan. No pixel is decoded.

    `recall` tells the plan of content that was planned before, by its SHA-256. Where there is one, small images are
    hashed at once: another turn of a thread would take longer. A file whose plan is remembered is not opened.
    `content_sha256` is that of the source's bytes, where it is known.

    Raises:
        ItemFault: for an image that cannot be read or is over a limit, CONTENT_DIGEST_MISMATCH, FEATURES_TOO_LARGE.
    """
    started_ns = time.perf_counter_ns()
    plan: ImagePlan | None = None
    header: ImageHeader | None = None
    opened = OpenedFile()
    if recall is not None and item.size_bytes <= HASHED_AT_ONCE_BYTES:
        content_sha256 = content_sha256 or hashlib.sha256(item.source.data).digest()
        plan = recall(content_sha256)
    if plan is None:
        match item.source:
            case EncodedSource(data):
                header, opened = open_header(data, limits)
                size = planned_size(header, config.arithmetic.orientation)
            case PixelsSource(data, width_px, height_px, pixel_format):
                check_raw_pixels(width_px, height_px, pixel_format, len(data), limits)
                size = Size(width_px, height_px)
        plan = config.plan(size)
    if item.expected_sha256:
        content_sha256 = content_sha256 or hashlib.sha256(item.source.data).digest()
        if content_sha256 != item.expected_sha256:
            raise ItemFault(
                ItemReason.CONTENT_DIGEST_MISMATCH,
                f"Expected content of SHA-256 {item.expected_sha256.hex()}, got {content_sha256.hex()}",
                field="expected_sha256",
            )
    feature_bytes = plan.feature_bytes(element_type)
    if feature_bytes > max_feature_bytes:
        raise ItemFault(
            ItemReason.FEATURES_TOO_LARGE,
            f"Expected features of at most {max_feature_bytes} bytes, "
            f"got {feature_bytes} for {plan.original_size} pixels",
        )
    planning_ns = time.perf_counter_ns() - started_ns
    return PlannedImage(item, header, plan, feature_bytes, planning_ns, opened, content_sha256)


def decode_planned(
    planned: PlannedImage, config: ProcessorConfig, token: CancelToken, buffers: BufferPool, limits: ImageLimits
) -> DecodedImage:
    """Hash (where it is not done), decode and prepare. Runs in a worker; releases the GIL for most of its time.

    The caller releases what it gets, once the pixels were transformed.

    Raises:
        ItemFault: IMAGE_DAMAGED, IMAGE_UNSUPPORTED, OVERLOADED.
        JobCancelled: between two stages.
    """
    started_ns = time.perf_counter_ns()
    source = planned.item.source
    content_sha256 = planned.content_sha256 or hashlib.sha256(source.data).digest()
    token.check()
    memory: Buffer | None = None
    try:
        match source:
            case EncodedSource(data):
                # The cache has remembered the plan, and has dropped the features since.
                header = planned.header or probe_header(data, limits)
                if pixel_bytes := owned_bytes(header):
                    memory = buffers.take(pixel_bytes)
                orientation = config.arithmetic.orientation
                own_memory = None if memory is None else memory.array
                loaded = decode_into(data, header, orientation, own_memory, planned.opened.take())
                token.check()
                prepared = prepare_image(loaded.image, planned.plan, config, loaded.pixels)
            case PixelsSource(data, _, _, pixel_format):
                prepared = prepare_raw_pixels(data, planned.plan.original_size, pixel_format, planned.plan, config)
        token.check()
    except BaseException:
        if memory is not None:
            memory.release()
        raise
    return DecodedImage(prepared, content_sha256, time.perf_counter_ns() - started_ns, memory)


class ImagePlanner:
    """What the engines of the deferred paths have in common: one config, one element type, plans and provenance."""

    def __init__(self, config: ProcessorConfig, element_type: ElementType, resources: Resources) -> None:
        self._config = config
        self._config_sha256 = config_digest(config)
        self._element_type = element_type
        self._resources = resources

    async def plan(self, image: ImageItem | Callable[[], ImageItem], recall: Recall | None) -> PlannedImage:
        """Plan from the header, before any pixel is decoded. Raises `ItemFault`.

        `image` may be what fetches it, in a worker. Where it is here and small, the event loop tells a plan that is
        remembered: a turn of a thread and back takes ten times as long as to hash it.
        """
        content_sha256: bytes | None = None
        if isinstance(image, ImageItem) and recall is not None and image.size_bytes <= HASHED_BY_LOOP_BYTES:
            started_ns = time.perf_counter_ns()
            content_sha256 = hashlib.sha256(image.source.data).digest()
            plan = recall(self._key(image, content_sha256))
            if plan is not None and image.expected_sha256 in (b"", content_sha256):
                feature_bytes = plan.feature_bytes(self._element_type)
                planning_ns = time.perf_counter_ns() - started_ns
                return PlannedImage(image, None, plan, feature_bytes, planning_ns, OpenedFile(), content_sha256)
        limits, max_feature_bytes = self._resources.limits, self._resources.max_feature_bytes

        def plan_in_worker() -> PlannedImage:
            item = image if isinstance(image, ImageItem) else image()
            return plan_item(
                item,
                self._config,
                self._element_type,
                limits,
                max_feature_bytes,
                None if recall is None else lambda digest: recall(self._key(item, digest)),
                content_sha256,
            )

        return await self._resources.workers.plan(plan_in_worker)

    async def key(self, planned: PlannedImage, token: CancelToken) -> tuple[ContentKey, PlannedImage]:
        """What decides the features' bytes, and the image with its digest, so that nobody makes it again."""
        content_sha256 = planned.content_sha256
        if content_sha256 is None:
            content_sha256 = await self._digest(planned.item.source.data, token)
        return self._key(planned.item, content_sha256), replace(planned, content_sha256=content_sha256)

    def _key(self, item: ImageItem, content_sha256: bytes) -> ContentKey:
        match item.source:
            case EncodedSource():
                pixel_format, pixel_size = None, None
            case PixelsSource(_, width_px, height_px, pixel_format):
                pixel_size = Size(width_px, height_px)
        return ContentKey(content_sha256, pixel_format, pixel_size, self._config_sha256, self._element_type)

    async def _digest(self, data: bytes, token: CancelToken) -> bytes:
        """SHA-256. Of large data in the stream's turn, since plans must not queue behind it."""
        workers = self._resources.workers
        if len(data) <= HASHED_WITH_PLANS_BYTES:
            return await workers.plan(lambda: hashlib.sha256(data).digest())
        return await workers.run(lambda: hashlib.sha256(data).digest(), token, lambda _: None, cost=len(data))

    def _provenance(self, decoded: DecodedImage, kernel_route: Route) -> Provenance:
        """`kernel_route` is where images go that do not need Pillow's own arithmetic."""
        return Provenance(
            config_sha256=self._config_sha256,
            content_sha256=decoded.content_sha256,
            resample_kernel=self._config.arithmetic.resample_kernel,
            route=kernel_route if decoded.prepared.route is ResizeRoute.KERNEL else Route.HOST_PILLOW,
        )
