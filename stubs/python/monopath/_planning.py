"""The unary call `Plan`: sizes in, geometry and encoder ranks out. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from monopath._enums import DataTypeName, data_type_number
from monopath._errors import FieldViolation, ItemError, ProtocolError
from monopath._records import ImagePlan, Size, image_plan, item_error, violations
from monopath.v1 import geometry_pb2, service_pb2

if TYPE_CHECKING:
    from collections.abc import Iterable

    from monopath.v1 import config_pb2

__all__ = ["EncoderRankLoad", "PlanReply", "PlannedImage", "SizeInput", "plan_reply", "plan_request"]

SizeInput: TypeAlias = Size | tuple[int, int]
"""A `Size`, or width and height in pixels."""


@dataclass(frozen=True, slots=True)
class PlannedImage:
    """The plan of one image, or why it has none."""

    id: int
    """Place of the image in the request, counted from 1."""
    plan: ImagePlan | None
    error: ItemError | None
    encoder_rank: int | None
    """The encoder rank that owns the image. None where no ranks were asked for, or without a plan."""


@dataclass(frozen=True, slots=True)
class EncoderRankLoad:
    """What one encoder rank was given."""

    rank: int
    image_count: int
    patch_count: int


@dataclass(frozen=True, slots=True, eq=False)
class PlanReply:
    """Plans in the order of the sizes asked for."""

    images: tuple[PlannedImage, ...]
    encoder_ranks: tuple[EncoderRankLoad, ...]
    """One for each rank, where ranks were asked for."""
    processor: config_pb2.ProcessorConfig
    """The config that holds, typed and complete."""
    config_sha256: bytes
    warnings: tuple[FieldViolation, ...]
    """What the server ignored in the config."""


def plan_request(
    sizes: Iterable[SizeInput],
    processor: config_pb2.ProcessorConfig,
    *,
    encoder_rank_count: int | None,
    data_type: DataTypeName | None,
) -> service_pb2.PlanRequest:
    """Return the request. Raises ValueError for an unknown element type."""
    request = service_pb2.PlanRequest(processor=processor, encoder_rank_count=encoder_rank_count)
    if data_type is not None:
        request.data_type = data_type_number(data_type)
    for image_id, size in enumerate(sizes, start=1):
        width_px, height_px = (size.width_px, size.height_px) if isinstance(size, Size) else size
        request.images.add(id=image_id, size=geometry_pb2.Size(width_px=width_px, height_px=height_px))
    return request


def plan_reply(message: service_pb2.PlanResponse, *, size_count: int) -> PlanReply:
    """Read the reply. Raises ProtocolError where it is not one plan or error for each size, in their order."""
    if [image.id for image in message.images] != list(range(1, size_count + 1)):
        raise ProtocolError(f"Expected plans of the images 1 to {size_count} in their order, got others")
    return PlanReply(
        images=tuple(_planned_image(image) for image in message.images),
        encoder_ranks=tuple(
            EncoderRankLoad(load.rank, load.image_count, load.patch_count) for load in message.encoder_ranks
        ),
        processor=message.processor,
        config_sha256=message.config_sha256,
        warnings=violations(message.warnings),
    )


def _planned_image(message: service_pb2.PlannedImage) -> PlannedImage:
    outcome = message.WhichOneof("outcome")
    if outcome is None:
        raise ProtocolError(f"Expected a plan or an error for image {message.id}, got neither")
    return PlannedImage(
        id=message.id,
        plan=image_plan(message.plan) if outcome == "plan" else None,
        error=item_error(message.error, item_id=message.id) if outcome == "error" else None,
        encoder_rank=message.encoder_rank if message.HasField("encoder_rank") else None,
    )
