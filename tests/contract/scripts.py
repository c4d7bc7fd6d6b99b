"""Whole streams as lists of events, built message by message, for tests of the grammar checker."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from google.protobuf import message_factory
from google.protobuf.message import Message

from monopath.v1 import config_pb2, error_pb2, event_pb2, image_pb2, path_pb2, tensor_pb2
from tests.support.grammar import Event, FromClient, FromServer, HalfClose, Status
from tests.support.options import SERVICE, method_path

__all__ = [
    "CPU",
    "CUDA",
    "LOCAL",
    "changed",
    "good_script",
    "index_of",
    "inserted",
    "moved",
    "request",
    "response",
    "setting",
    "without",
]

LOCAL = path_pb2.PREPROCESSING_PATH_LOCAL
CUDA = path_pb2.PREPROCESSING_PATH_DEFERRED_CUDA
CPU = path_pb2.PREPROCESSING_PATH_DEFERRED_CPU

_DIGEST = bytes(range(32))
_SHAPE = (1, 3, 14, 14)
_FEATURE_BYTES = 588
_FIRST_CHUNK_BYTES = 400


def _message(path: int, side: str, arm: str, fields: dict[str, Any]) -> Message:
    method = next(method for method in SERVICE.methods if method_path(method) == path)
    descriptor = method.input_type if side == "request" else method.output_type
    message: Any = message_factory.GetMessageClass(descriptor)()
    payload = getattr(message, arm)
    payload.SetInParent()
    payload.MergeFrom(type(payload)(**fields))
    return message  # type: ignore[no-any-return]


def request(path: int, arm: str, /, **fields: Any) -> FromClient:
    """A message of the client on the method of `path`, with this arm of its payload."""
    return FromClient(_message(path, "request", arm, fields))


def response(path: int, arm: str, /, **fields: Any) -> FromServer:
    """A message of the server on the method of `path`, with this arm of its payload."""
    return FromServer(_message(path, "response", arm, fields))


def _item(path: int, item_id: int, label: str) -> list[Event]:
    if path != LOCAL:
        pixels = image_pb2.RawPixels(width_px=2, height_px=1, format=image_pb2.PIXEL_FORMAT_GRAY8, data=b"\x01\x02")
        return [request(path, "item", id=item_id, label=label, image=image_pb2.ImageSource(pixels=pixels))]
    events: list[Event] = [request(path, "item", id=item_id, label=label, features=_spec())]
    for offset, data in _chunks():
        chunk = {"offset_bytes": offset, "data": data}
        events.append(request(path, "item_features", id=item_id, chunk=chunk))
    return events


def _spec() -> tensor_pb2.TensorSpec:
    return tensor_pb2.TensorSpec(data_type=tensor_pb2.DATA_TYPE_UINT8, shape=_SHAPE, size_bytes=_FEATURE_BYTES)


def _chunks() -> list[tuple[int, bytes]]:
    return [(0, bytes(_FIRST_CHUNK_BYTES)), (_FIRST_CHUNK_BYTES, bytes(_FEATURE_BYTES - _FIRST_CHUNK_BYTES))]


def _answer(path: int, item_id: int, label: str) -> list[Event]:
    events: list[Event] = [response(path, "plan", id=item_id, path=path, plan={"features": _spec()})]
    for offset, data in _chunks():
        events.append(response(path, "features", id=item_id, chunk={"offset_bytes": offset, "data": data}))
    provenance = {"path": path, "config_sha256": _DIGEST}
    events.append(response(path, "completion", id=item_id, label=label, provenance=provenance))
    return events


def good_script(path: int) -> list[Event]:
    """A good stream: items 1 and 2 are completed, 5 fails, 7 is cancelled; a goaway and a release on the way."""
    output = config_pb2.OutputConfig(
        data_type=tensor_pb2.DATA_TYPE_UINT8,
        order=config_pb2.RESULT_ORDER_AS_SENT,
        inline=config_pb2.InlineTransport(),
    )
    received_bytes = 4 * (_FEATURE_BYTES if path == LOCAL else 2)
    return [
        request(path, "config", output=output),
        response(path, "ready", path=path, config_sha256=_DIGEST, limits={"chunk_bytes": 4096}),
        *_item(path, 1, "first"),
        *_item(path, 2, ""),
        *_answer(path, 1, "first"),
        response(path, "goaway", reason=event_pb2.GOAWAY_REASON_STREAM_AGE),
        *_item(path, 5, "bad"),
        *_item(path, 7, "unwanted"),
        request(path, "cancellation", id=7),
        request(path, "release", id=1),
        HalfClose(),
        *_answer(path, 2, ""),
        response(path, "error", id=5, label="bad", reason=error_pb2.ITEM_ERROR_REASON_IMAGE_DAMAGED),
        response(path, "error", id=7, label="unwanted", reason=error_pb2.ITEM_ERROR_REASON_CANCELLED),
        response(
            path,
            "summary",
            accepted_count=4,
            completed_count=2,
            failed_count=1,
            cancelled_count=1,
            received_bytes=received_bytes,
            sent_bytes=2 * _FEATURE_BYTES,
        ),
        Status(0),
    ]


def _matches(event: Event, side: type[Event], arm: str, item_id: int | None) -> bool:
    if not isinstance(event, side) or not isinstance(event, FromClient | FromServer):
        return False
    message: Any = event.message
    return message.WhichOneof("payload") == arm and (item_id is None or getattr(message, arm).id == item_id)


def index_of(script: list[Event], side: type[Event], arm: str, item_id: int | None = None) -> int:
    """Where the first event of this side, arm and item stands."""
    return next(index for index, event in enumerate(script) if _matches(event, side, arm, item_id))


def without(script: list[Event], side: type[Event], arm: str, item_id: int | None = None) -> list[Event]:
    """The script without any event of this side, arm and item."""
    return [event for event in script if not _matches(event, side, arm, item_id)]


def changed(
    script: list[Event], side: type[Event], arm: str, change: Callable[[Any], object], item_id: int | None = None
) -> list[Event]:
    """The script with a change made to the payload of its first event of this side, arm and item."""
    result = list(script)
    index = index_of(script, side, arm, item_id)
    event: Any = copy.deepcopy(script[index])
    change(getattr(event.message, arm))
    result[index] = event
    return result


def inserted(script: list[Event], index: int, *events: Event) -> list[Event]:
    """The script with events put in before that index."""
    return [*script[:index], *events, *script[index:]]


def moved(script: list[Event], source: int, target: int) -> list[Event]:
    """The script with one event taken out, and put in again at an index of what is left."""
    return inserted([*script[:source], *script[source + 1 :]], target, script[source])


def setting(**fields: Any) -> Callable[[Any], None]:
    """A change for `changed` that sets fields of a payload; `__` stands for the dot of a nested field."""

    def change(payload: Any) -> None:
        for name, value in fields.items():
            *parents, last = name.split("__")
            target = payload
            for parent in parents:
                target = getattr(target, parent)
            setattr(target, last, value)

    return change
