"""What the typed client gave, written as the contract's messages again, so that it can be held against a vector.

A label is what the client remembers of its item. Features are one array of the client's, wherever they lay, and are
written as one chunk. A stream's failure and its status are one error of the client's, and are written as both. What the
client does not show is not written, such as the server's offer of shared memory.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from monopath import (
    CallError,
    Capabilities,
    Event,
    FieldViolation,
    ImagePlan,
    ItemError,
    PlanEvent,
    PlanReply,
    Provenance,
    Ready,
    Result,
    StreamLimits,
    Summary,
)
from monopath.v1 import (
    config_pb2,
    error_pb2,
    event_pb2,
    geometry_pb2,
    image_pb2,
    path_pb2,
    service_pb2,
    tensor_pb2,
)
from tests.conformance.programs import wire
from tests.conformance.programs.protocol import Answer, Job

__all__ = ["StreamAnswers", "capabilities_response", "plan_response", "refusal", "unary_answer"]

_OK: dict[str, Any] = {"code": "OK", "message": "", "reason": "", "domain": "", "violations": []}


class StreamAnswers:
    """Collects what a stream gave."""

    def __init__(self, vector: Job) -> None:
        self._response_type: Any = wire.response_type(vector)
        self._responses: list[Message] = []

    def ready(self, ready: Ready) -> None:
        """The stream is open."""
        self._add(ready=_ready(ready))

    def event(self, event: Event[Any]) -> None:
        """A plan, or an item's end with its features."""
        if isinstance(event, PlanEvent):
            path = path_pb2.PreprocessingPath.Value(f"PREPROCESSING_PATH_{event.path}")
            self._add(plan=event_pb2.ItemPlan(id=event.id, path=path, plan=_plan(event.plan)))
        elif event.error is not None:
            self._add(error=_item_error(event.error))
        else:
            self._completed(event)

    def end(self, summary: Summary | None) -> Answer:
        """The good end."""
        assert summary is not None
        self._add(summary=event_pb2.Summary(**dataclasses.asdict(summary)))
        return wire.answer(self._responses, _OK)

    def failure(self, error: CallError) -> Answer:
        """The bad end."""
        if error.reason:
            reason = error_pb2.StreamErrorReason.Value(f"STREAM_ERROR_REASON_{error.reason}")
            wrong = _violations(error.violations)
            self._add(failure=error_pb2.StreamFailure(reason=reason, message=error.message, violations=wrong))
        return wire.answer(self._responses, refusal(error))

    def _completed(self, result: Result[Any]) -> None:
        # A new message, whose arm is of the path's own type.
        features: Any = self._response_type()
        features.features.id = result.id
        features.features.chunk.data = result.array.tobytes()
        completion: Any = self._response_type()
        completion.completion.id = result.id
        completion.completion.label = result.label
        completion.completion.provenance.CopyFrom(_provenance(result.provenance))
        for name, seconds in dataclasses.asdict(result.timings).items():
            duration: Duration = getattr(completion.completion.timings, name.removesuffix("_seconds"))
            duration.FromNanoseconds(round(seconds * 1e9))
        if result.cache is not None:
            completion.completion.cache = _number(event_pb2.CacheOutcome, "CACHE_OUTCOME_", result.cache)
        self._responses += [features, completion]

    def _add(self, **arm: Message) -> None:
        self._responses.append(self._response_type(**arm))


def refusal(error: CallError) -> dict[str, Any]:
    """The status of an error. The client reads reasons of the contract's domain only."""
    return {
        "code": error.code.name,
        "message": error.message,
        "reason": str(error.reason),
        "domain": "monopath.v1" if error.reason else "",
        "violations": [dataclasses.asdict(violation) for violation in error.violations],
    }


def unary_answer(response: Message | None, error: CallError | None = None) -> Answer:
    """The answer to a unary call."""
    return wire.answer([] if response is None else [response], _OK if error is None else refusal(error))


def plan_response(reply: PlanReply) -> service_pb2.PlanResponse:
    """The reply of `plan` as a message."""
    response = service_pb2.PlanResponse(
        processor=reply.processor, config_sha256=reply.config_sha256, warnings=_violations(reply.warnings)
    )
    for image in reply.images:
        planned = response.images.add(id=image.id, encoder_rank=image.encoder_rank)
        if image.plan is not None:
            planned.plan.CopyFrom(_plan(image.plan))
        if image.error is not None:
            planned.error.CopyFrom(_item_error(image.error))
    for load in reply.encoder_ranks:
        response.encoder_ranks.add(**dataclasses.asdict(load))
    return response


def capabilities_response(told: Capabilities) -> service_pb2.GetCapabilitiesResponse:
    """The reply of `capabilities` as a message."""
    response = service_pb2.GetCapabilitiesResponse(
        contract_version=told.contract_version,
        server_version=told.server_version,
        data_types=[_number(tensor_pb2.DataType, "DATA_TYPE_", word) for word in told.data_types],
        limits=_limits(told.limits),
        image_formats=told.image_formats,
        pixel_formats=[_number(image_pb2.PixelFormat, "PIXEL_FORMAT_", word) for word in told.pixel_formats],
        resample_kernels=[_kernel(word) for word in told.resample_kernels],
        pillow_version=told.pillow_version,
        pillow_resample_kernel=_kernel(told.pillow_resample_kernel),
    )
    for path in told.paths:
        response.paths.add(path=_path(path.name), available=path.available, unavailable_reason=path.unavailable_reason)
    for device in told.devices:
        response.devices.add(
            id=device.id, name=device.name, paths=map(_path, device.paths), memory_bytes=device.memory_bytes
        )
    for preset in told.presets:
        response.presets.add(name=preset.name, processor=preset.processor, config_sha256=preset.config_sha256)
    for transport in told.transports:
        response.transports.add(
            name=transport.name, available=transport.available, unavailable_reason=transport.unavailable_reason
        )
    return response


def _ready(ready: Ready) -> event_pb2.Ready:
    message = event_pb2.Ready(
        path=_path(ready.path),
        processor=ready.processor,
        config_sha256=ready.config_sha256,
        warnings=_violations(ready.warnings),
        limits=_limits(ready.limits),
        device=ready.device,
        server_version=ready.server_version,
    )
    if ready.normalize_table is not None:
        table = ready.normalize_table
        message.normalize_table.spec.data_type = tensor_pb2.DATA_TYPE_FLOAT32
        message.normalize_table.spec.shape.extend(table.shape)
        message.normalize_table.spec.size_bytes = table.nbytes
        message.normalize_table.data = table.tobytes()
    return message


def _plan(plan: ImagePlan) -> geometry_pb2.ImagePlan:
    message = geometry_pb2.ImagePlan(
        original_size=geometry_pb2.Size(**dataclasses.asdict(plan.original_size)),
        resized_size=geometry_pb2.Size(**dataclasses.asdict(plan.resized_size)),
        padding=geometry_pb2.Padding(**dataclasses.asdict(plan.padding)),
        grid_thw=geometry_pb2.GridThw(**({} if plan.grid_thw is None else dataclasses.asdict(plan.grid_thw))),
        token_count=plan.token_count,
    )
    if plan.tile_grid is not None:
        message.tile_grid.CopyFrom(geometry_pb2.TileGrid(**dataclasses.asdict(plan.tile_grid)))
    if plan.fixed_size is not None:
        message.fixed_size.CopyFrom(geometry_pb2.Size(**dataclasses.asdict(plan.fixed_size)))
    if plan.crop is not None:
        message.crop.CopyFrom(geometry_pb2.Crop(**dataclasses.asdict(plan.crop)))
    if plan.data_type is not None:
        message.features.data_type = _number(tensor_pb2.DataType, "DATA_TYPE_", plan.data_type)
        message.features.shape.extend(plan.shape)
        message.features.size_bytes = plan.size_bytes
    return message


def _item_error(error: ItemError) -> error_pb2.ItemError:
    message = error_pb2.ItemError(
        id=error.item_id,
        label=error.label,
        reason=_number(error_pb2.ItemErrorReason, "ITEM_ERROR_REASON_", error.reason),
        message=error.message,
        field=error.field,
    )
    if error.retry_after_seconds is not None:
        message.retry_after.FromNanoseconds(round(error.retry_after_seconds * 1e9))
    return message


def _provenance(made: Provenance) -> event_pb2.Provenance:
    return event_pb2.Provenance(
        path=_path(made.path),
        config_sha256=made.config_sha256,
        content_sha256=made.content_sha256,
        resample_kernel=_kernel(made.resample_kernel),
        route=_number(event_pb2.Route, "ROUTE_", made.route),
        pillow_version=made.pillow_version,
        server_version=made.server_version,
    )


def _limits(limits: StreamLimits) -> event_pb2.StreamLimits:
    return event_pb2.StreamLimits(**dataclasses.asdict(limits))


def _violations(found: tuple[FieldViolation, ...]) -> list[error_pb2.FieldViolation]:
    return [error_pb2.FieldViolation(**dataclasses.asdict(violation)) for violation in found]


def _path(word: str) -> Any:
    return _number(path_pb2.PreprocessingPath, "PREPROCESSING_PATH_", word)


def _kernel(word: str) -> Any:
    return _number(config_pb2.ResampleKernel, "RESAMPLE_KERNEL_", word)


def _number(enum: Any, prefix: str, word: str) -> Any:
    """The enum number of a word; numbers that this release does not know are words already."""
    return int(word) if word.isdecimal() else enum.Value(prefix + word.upper())
