"""`Plan`: geometry, token counts and encoder ranks from sizes alone."""

from __future__ import annotations

from monopath.v1 import service_pb2
from monopath_server.faults import ConfigViolation, ItemFault, StreamFault, StreamReason
from monopath_server.media.limits import ImageLimits
from monopath_server.media.pixels import check_size
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.ranks import assign_ranks
from monopath_server.processors.types import ImagePlan, Size
from monopath_server.serving.configs import resolve_processor
from monopath_server.serving.enums import DATA_TYPES
from monopath_server.serving.families.registry import processor_message
from monopath_server.serving.plans import plan_message
from monopath_server.serving.rules import find_violations
from monopath_server.serving.status import item_error_message, violation_messages
from monopath_server.settings import Settings

__all__ = ["plan_images"]


def plan_images(request: service_pb2.PlanRequest, settings: Settings) -> service_pb2.PlanResponse:
    """Plan every size. One that cannot be planned has an error of its own and is owned by no rank.

    Runs in a worker thread: 10,000 sizes take tens of milliseconds.

    Raises:
        ConfigFault: for the processor.
        StreamFault: REQUEST_INVALID for all else, every wrong field at once.
    """
    processor = resolve_processor(request.processor, "processor", settings.presets)
    _check(request)
    element_type = DATA_TYPES.to_inner(request.data_type) if request.HasField("data_type") else None
    response = service_pb2.PlanResponse(
        processor=processor_message(processor.config),
        config_sha256=processor.sha256,
        warnings=violation_messages(processor.warnings),
    )
    planned: list[tuple[service_pb2.PlannedImage, ImagePlan]] = []
    for image in request.images:
        entry = response.images.add(id=image.id)
        try:
            plan = _plan(processor.config, Size(image.size.width_px, image.size.height_px), settings.image_limits)
        except ItemFault as fault:
            entry.error.CopyFrom(item_error_message(image.id, "", fault))
        else:
            entry.plan.CopyFrom(plan_message(plan, element_type))
            planned.append((entry, plan))
    if request.HasField("encoder_rank_count"):
        _assign(response, planned, request.encoder_rank_count)
    return response


def _plan(config: ProcessorConfig, size: Size, limits: ImageLimits) -> ImagePlan:
    check_size(size, limits)
    return config.plan(size)


def _assign(
    response: service_pb2.PlanResponse,
    planned: list[tuple[service_pb2.PlannedImage, ImagePlan]],
    rank_count: int,
) -> None:
    assignment = assign_ranks([plan.row_count for _, plan in planned], rank_count)
    image_counts = [0] * rank_count
    for (entry, _), rank in zip(planned, assignment.ranks, strict=True):
        entry.encoder_rank = rank
        image_counts[rank] += 1
    for rank, patch_count in enumerate(assignment.loads):
        response.encoder_ranks.add(rank=rank, image_count=image_counts[rank], patch_count=patch_count)


def _check(request: service_pb2.PlanRequest) -> None:
    violations = list(find_violations(request, ""))
    seen: set[int] = set()
    for index, image in enumerate(request.images):
        if image.id < 1:
            violations.append(ConfigViolation(f"images[{index}].id", f"Expected a positive id, got {image.id}"))
        elif image.id in seen:
            violations.append(
                ConfigViolation(f"images[{index}].id", f"Expected an id that no other image has, got {image.id} again")
            )
        seen.add(image.id)
    if violations:
        raise StreamFault(
            StreamReason.REQUEST_INVALID,
            f"The request is invalid: {', '.join(found.field for found in violations)}",
            violations=tuple(violations),
        )
