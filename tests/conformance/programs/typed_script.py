"""What a vector says, in the words of the typed client. Where it has no words for it, the vector cannot be run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from monopath import GridThw, Item, LocalFeatures, RawImage, Size
from monopath.v1 import config_pb2, deferred_cpu_pb2, image_pb2, local_pb2, location_pb2, tensor_pb2
from tests.conformance.programs import wire
from tests.conformance.programs.protocol import CannotRun, Job

__all__ = ["PlanScript", "StreamScript", "check_capabilities", "plan_script", "refusals_of_client", "stream_script"]

_NO_BYTES = "the typed client sends no bytes of the caller's making"
_OPENINGS = {"StreamLocal": "local", "StreamDeferredCuda": "deferred_cuda", "StreamDeferredCpu": "deferred_cpu"}
_ELEMENT_TYPES: dict[int, np.dtype[Any]] = {
    tensor_pb2.DATA_TYPE_UINT8: np.dtype(np.uint8),
    tensor_pb2.DATA_TYPE_FLOAT32: np.dtype("<f4"),
    tensor_pb2.DATA_TYPE_BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    tensor_pb2.DATA_TYPE_FLOAT16: np.dtype("<f2"),
}


@dataclass
class StreamScript:
    """A stream: how it is opened, and what is sent over it."""

    opening: str
    """Name of the client's method: `deferred_cpu`."""
    arguments: dict[str, Any]
    items: list[Item | LocalFeatures] = field(default_factory=list)


@dataclass
class PlanScript:
    """A call of `plan`."""

    sizes: list[Size]
    arguments: dict[str, Any]


@contextlib.contextmanager
def refusals_of_client() -> Iterator[None]:
    """Around what hands values to the client: those that it refuses itself never reach a server."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise CannotRun(f"the typed client refuses it: {error}") from error


def check_capabilities(vector: Job) -> None:
    """Raise CannotRun where a request for capabilities is not the empty one that the typed client sends."""
    if wire.is_wire(vector):
        raise CannotRun(_NO_BYTES)


def stream_script(vector: Job, transport: str) -> StreamScript:
    """Return the vector as a stream whose features travel like this, and not as it says: the bytes are the same.

    Raises CannotRun with what the typed client never sends.
    """
    if wire.is_wire(vector):
        raise CannotRun(_NO_BYTES)
    if not vector["half_close"]:
        raise CannotRun("the typed client half-closes")
    requests: list[Any] = list(wire.requests(vector))
    arms = [request.WhichOneof("payload") for request in requests]
    if arms[:1] != ["config"] or "config" in arms[1:] or None in arms:
        raise CannotRun("the typed client opens each stream with one config")
    if not set(arms[1:]) <= {"item", "item_features"}:
        raise CannotRun("the typed client says cancellations and releases only of items on their way")
    if "server" in vector and transport != "inline":
        raise CannotRun("the newer server sends features inline")
    arguments = {**_stream_arguments(requests[0].config), "transport": transport}
    script = StreamScript(_OPENINGS[vector["method"]], arguments)
    if vector["method"] == "StreamLocal":
        script.items.extend(_local_items(requests[1:]))
    else:
        script.items.extend(_deferred_item(request.item, index) for index, request in enumerate(requests[1:], start=1))
    return script


def plan_script(vector: Job) -> PlanScript:
    """Return the vector as a call of `plan`. Raises CannotRun with what the typed client never sends."""
    if wire.is_wire(vector):
        raise CannotRun(_NO_BYTES)
    request: Any = wire.requests(vector)[0]
    if not request.HasField("processor"):
        raise CannotRun("the typed client names a processor")
    if [image.id for image in request.images] != list(range(1, len(request.images) + 1)):
        raise CannotRun("the typed client numbers images from 1")
    if not all(image.HasField("size") for image in request.images):
        raise CannotRun("the typed client gives each image a size")
    arguments = _processor_arguments(request.processor)
    if request.HasField("data_type"):
        arguments["data_type"] = _word(tensor_pb2.DataType, request.data_type, "DATA_TYPE_")
    if request.HasField("encoder_rank_count"):
        arguments["encoder_rank_count"] = request.encoder_rank_count
    return PlanScript([Size(image.size.width_px, image.size.height_px) for image in request.images], arguments)


def _stream_arguments(config: Any) -> dict[str, Any]:
    if not config.HasField("processor") or not config.HasField("output"):
        raise CannotRun("the typed client names a processor and an output")
    inline = config_pb2.InlineTransport()
    if config.output.WhichOneof("transport") != "inline" or config.output.inline != inline:
        raise CannotRun("the typed client asks for chunks of the server's size, and shows a probe of its own making")
    arguments = _processor_arguments(config.processor)
    arguments["data_type"] = _word(tensor_pb2.DataType, config.output.data_type, "DATA_TYPE_")
    arguments["bypass_cache"] = config.output.bypass_cache
    arguments["order"] = _word(config_pb2.ResultOrder, config.output.order, "RESULT_ORDER_")
    if "device_uuid" in config.DESCRIPTOR.fields_by_name:
        arguments["device_uuid"] = config.device_uuid
    return arguments


def _processor_arguments(processor: config_pb2.ProcessorConfig) -> dict[str, Any]:
    match processor.WhichOneof("source"):
        case "preset":
            return {"preset": processor.preset.name, **_replacements(processor.preset)}
        case "checkpoint":
            text = processor.checkpoint.preprocessor_config_json
            return {"checkpoint_json": text, **_replacements(processor.checkpoint)}
        case "kimi" | "qwen_vl" | "kimi_vl" | "glm_vl" | "glm_next" | "fixed_size" | "intern_vl" as family:
            return {"config": getattr(processor, family)}
        case None:
            raise CannotRun("the typed client names the source of a processor")


def _replacements(source: config_pb2.PresetConfig | config_pb2.CheckpointConfig) -> dict[str, Any]:
    replaced = {}
    if source.HasField("resample_kernel"):
        replaced["resample_kernel"] = _word(config_pb2.ResampleKernel, source.resample_kernel, "RESAMPLE_KERNEL_")
    if source.HasField("orientation_policy"):
        policy = _word(config_pb2.OrientationPolicy, source.orientation_policy, "ORIENTATION_POLICY_")
        replaced["orientation"] = policy
    return replaced


def _deferred_item(item: Any, index: int) -> Item:
    if item.id != index:
        raise CannotRun("the typed client numbers items from 1")
    told = deferred_cpu_pb2.DeferredCpuItem(
        id=item.id,
        label=item.label,
        image=item.image,
        traceparent=item.traceparent,
        expected_sha256=item.expected_sha256,
    )
    if not item.HasField("image") or told.SerializeToString() != item.SerializeToString():
        raise CannotRun("the typed client sends an image with each item, and no fields but its own")
    return _item(image=_image(item.image), item=item)


def _item(image: bytes | RawImage, item: Any) -> Item:
    with refusals_of_client():
        return Item(image, item.label, expected_sha256=item.expected_sha256, traceparent=item.traceparent)


def _image(image: image_pb2.ImageSource) -> bytes | RawImage:
    match image.WhichOneof("content"):
        case "encoded" if image.encoded.WhichOneof("location") == "data":
            return image.encoded.data
        case "pixels" if image.pixels.WhichOneof("location") == "data":
            return _raw_image(image.pixels)
        case _:
            raise CannotRun("the typed client sends the bytes of an image in the message")


def _raw_image(pixels: image_pb2.RawPixels) -> RawImage:
    name = _word(image_pb2.PixelFormat, pixels.format, "PIXEL_FORMAT_").upper()
    sides = (pixels.height_px, pixels.width_px)
    data = np.frombuffer(pixels.data, np.uint8)
    if not all(sides) or data.size % (sides[0] * sides[1]):
        raise CannotRun("pixels in an array are as many as its sides say, and of sides over 0")
    with refusals_of_client():
        return RawImage(data.reshape(*sides, -1), name)  # type: ignore[arg-type]  # the client checks the name


def _local_items(requests: list[Any]) -> list[Item | LocalFeatures]:
    """Announcements with their chunks joined: in which chunks they go, and in which turn, is the client's matter."""
    announced: dict[int, local_pb2.LocalItem] = {}
    parts: dict[int, bytearray] = {}
    for request in requests:
        if request.WhichOneof("payload") == "item":
            if request.item.id != len(announced) + 1:
                raise CannotRun("the typed client numbers items from 1")
            announced[request.item.id] = request.item
            parts[request.item.id] = bytearray()
        else:
            _add_chunk(parts, request.item_features)
    return [_local_features(announced[item_id], bytes(parts[item_id])) for item_id in announced]


def _add_chunk(parts: dict[int, bytearray], features: local_pb2.LocalItemFeatures) -> None:
    if features.id not in parts:
        raise CannotRun("the typed client sends features of items that it announced")
    chunk: location_pb2.FeatureChunk = features.chunk
    if features.WhichOneof("location") != "chunk" or chunk.offset_bytes != len(parts[features.id]) or not chunk.data:
        raise CannotRun("the typed client sends features inline, whole and in order")
    parts[features.id] += chunk.data


def _local_features(item: local_pb2.LocalItem, data: bytes) -> LocalFeatures:
    spec = item.features
    element_type = _ELEMENT_TYPES.get(spec.data_type)
    if element_type is None or not (item.HasField("original_size") and item.HasField("grid_thw") and spec.shape):
        raise CannotRun("the typed client announces size, grid and an array of a known element type")
    count = int(np.prod(list(spec.shape), dtype=object))
    if not len(data) == spec.size_bytes == count * element_type.itemsize:
        raise CannotRun("the typed client announces the array that it sends")
    with refusals_of_client():
        return LocalFeatures(
            np.frombuffer(data, element_type).reshape(tuple(spec.shape)),
            Size(item.original_size.width_px, item.original_size.height_px),
            GridThw(item.grid_thw.t, item.grid_thw.h, item.grid_thw.w),
            token_count=item.token_count,
            label=item.label,
            content_sha256=item.content_sha256,
            traceparent=item.traceparent,
        )


def _word(enum: Any, number: int, prefix: str) -> str:
    """The client's word for an enum number; it has none for zero and for unknown numbers."""
    value = enum.DESCRIPTOR.values_by_number.get(number)
    if value is None or number == 0:
        raise CannotRun(f"the typed client has no word for {enum.DESCRIPTOR.name} {number}")
    return str(value.name.removeprefix(prefix).lower())
