"""A stream driven message by message, with every event held to the grammar, and the messages to drive it with."""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import grpc
import numpy as np
from google.rpc import error_details_pb2, status_pb2
from numpy.typing import NDArray
from PIL import Image

from monopath.shared_memory import DEFAULT_DIRECTORY
from monopath.v1 import (
    config_pb2,
    deferred_cpu_pb2,
    deferred_cuda_pb2,
    error_pb2,
    event_pb2,
    image_pb2,
    local_pb2,
    location_pb2,
    path_pb2,
    service_pb2,
    service_pb2_grpc,
    tensor_pb2,
)
from monopath_server.settings import Settings
from tests.support.grammar import Party, StreamTrace
from tests.support.segments import MappedSegment
from tests.support.server import quick_settings

if TYPE_CHECKING:
    from monopath_server.app import Server

__all__ = [
    "Outcome",
    "PathName",
    "RawStream",
    "Rig",
    "encoded",
    "make_config",
    "make_item",
    "photo",
    "png",
    "preset",
    "raw_pixels",
    "running_rig",
]

PathName = Literal["local", "deferred_cuda", "deferred_cpu"]

_REQUESTS: dict[str, Any] = {
    "local": service_pb2.StreamLocalRequest,
    "deferred_cuda": service_pb2.StreamDeferredCudaRequest,
    "deferred_cpu": service_pb2.StreamDeferredCpuRequest,
}
_CONFIGS: dict[str, Any] = {
    "local": local_pb2.LocalConfig,
    "deferred_cuda": deferred_cuda_pb2.DeferredCudaConfig,
    "deferred_cpu": deferred_cpu_pb2.DeferredCpuConfig,
}
_METHODS = {"local": "StreamLocal", "deferred_cuda": "StreamDeferredCuda", "deferred_cpu": "StreamDeferredCpu"}
_PATHS = {
    "local": path_pb2.PREPROCESSING_PATH_LOCAL,
    "deferred_cuda": path_pb2.PREPROCESSING_PATH_DEFERRED_CUDA,
    "deferred_cpu": path_pb2.PREPROCESSING_PATH_DEFERRED_CPU,
}


def preset(name: str = "kimi-k2.5") -> config_pb2.ProcessorConfig:
    """A processor by the name of a preset."""
    return config_pb2.ProcessorConfig(preset=config_pb2.PresetConfig(name=name))


def make_config(
    path: PathName = "deferred_cpu",
    processor: config_pb2.ProcessorConfig | None = None,
    *,
    data_type: tensor_pb2.DataType.ValueType = tensor_pb2.DATA_TYPE_FLOAT32,
    as_sent: bool = False,
    chunk_bytes: int | None = None,
    probe: location_pb2.SharedMemoryProbe | None = None,
    bypass_cache: bool = False,
) -> Any:
    """The request that opens a stream; with a probe, one over shared memory."""
    output = config_pb2.OutputConfig(
        data_type=data_type,
        order=config_pb2.RESULT_ORDER_AS_SENT if as_sent else config_pb2.RESULT_ORDER_AS_COMPLETED,
        bypass_cache=bypass_cache,
    )
    if probe is None:
        output.inline.MergeFrom(config_pb2.InlineTransport(chunk_bytes=chunk_bytes))
        output.inline.SetInParent()
    else:
        output.shared_memory.probe.CopyFrom(probe)
    return _REQUESTS[path](config=_CONFIGS[path](processor=processor or preset(), output=output))


def make_item(item_id: int, image: image_pb2.ImageSource, label: str = "", path: PathName = "deferred_cpu") -> Any:
    """The request that sends an image."""
    item_types: dict[str, Any] = {
        "deferred_cuda": deferred_cuda_pb2.DeferredCudaItem,
        "deferred_cpu": deferred_cpu_pb2.DeferredCpuItem,
    }
    return _REQUESTS[path](item=item_types[path](id=item_id, label=label, image=image))


def encoded(data: bytes) -> image_pb2.ImageSource:
    """An image file."""
    return image_pb2.ImageSource(encoded=image_pb2.EncodedImage(data=data))


def raw_pixels(
    data: bytes,
    width_px: int,
    height_px: int,
    pixel_format: image_pb2.PixelFormat.ValueType = image_pb2.PIXEL_FORMAT_RGB8,
) -> image_pb2.ImageSource:
    """Raw pixels."""
    return image_pb2.ImageSource(
        pixels=image_pb2.RawPixels(data=data, width_px=width_px, height_px=height_px, format=pixel_format)
    )


def photo(width_px: int, height_px: int, seed: int = 0) -> NDArray[np.uint8]:
    """A smooth picture with some noise, uint8 [height, width, 3]."""
    y, x = np.mgrid[0:height_px, 0:width_px].astype(np.float64)
    waves = [np.sin(x / (7 + 5 * c) + c + seed) * np.cos(y / (11 + 3 * c)) for c in range(3)]
    noise = np.random.default_rng(seed).normal(0, 6, (height_px, width_px, 3))
    pixels: NDArray[np.uint8] = np.clip(127 + 100 * np.stack(waves, axis=-1) + noise, 0, 255).astype(np.uint8)
    return pixels


def png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file of uint8 [height, width] or [height, width, 3]."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    return buffer.getvalue()


@dataclass
class Outcome:
    """All that came of one item."""

    plan: event_pb2.ItemPlan | None = None
    data: bytearray = field(default_factory=bytearray)
    """The features, however they came."""
    mapped: MappedSegment | None = None
    """Where they are, if they came by a handle."""
    completion: Any = None
    error: error_pb2.ItemError | None = None

    @property
    def sha256(self) -> str:
        """Of the feature bytes."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def reason(self) -> str:
        """Name of the error's reason without its prefix; empty where the item is complete."""
        if self.error is None:
            return ""
        return error_pb2.ItemErrorReason.Name(self.error.reason).removeprefix("ITEM_ERROR_REASON_")


class RawStream:
    """One stream. Records everything, and holds it to the grammar in `finish`. Maps every handle as it comes."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        path: PathName,
        directory: Path = DEFAULT_DIRECTORY,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> None:
        """`directory` is where the server's segments are."""
        stub: Any = service_pb2_grpc.PreprocessingServiceStub(channel)
        self.call: Any = getattr(stub, _METHODS[path])(metadata=tuple(metadata))
        self.path = path
        self.directory = directory
        self.trace = StreamTrace(_PATHS[path])
        self.events: list[Any] = []
        """Every response, in order."""
        self.outcomes: dict[int, Outcome] = {}
        self.ready: event_pb2.Ready | None = None
        self.failure: error_pb2.StreamFailure | None = None
        self.summary: event_pb2.Summary | None = None
        self.status: status_pb2.Status | None = None

    async def send(self, *requests: Any) -> None:
        """Write requests."""
        for request in requests:
            self.trace.sent(request)
            await self.call.write(request)

    async def release(self, *item_ids: int) -> None:
        """Give items' memory back."""
        await self.send(*(_REQUESTS[self.path](release=event_pb2.Release(id=item_id)) for item_id in item_ids))

    async def half_close(self) -> None:
        """Write no more."""
        self.trace.half_closed()
        await self.call.done_writing()

    async def read(self) -> Any:
        """The next response; None at the end of the stream."""
        try:
            response = await self.call.read()
        except grpc.aio.AioRpcError:
            return None
        if response is grpc.aio.EOF:
            return None
        self.trace.received(response)
        self.events.append(response)
        for one in response.group.responses if response.WhichOneof("payload") == "group" else (response,):
            self._take(one)
        return response

    async def read_until(self, arm: str, item_id: int | None = None) -> Any:
        """Read up to the response with a payload (of one item); fails where the stream ends before."""
        while (response := await self.read()) is not None:
            if response.WhichOneof("payload") == arm:
                payload = getattr(response, arm)
                if item_id is None or payload.id == item_id:
                    return payload
        raise AssertionError(f"Expected {arm}, got the end of the stream: {await self.call.details()}")

    async def finish(self, *, half_close: bool = True, check: Party | None = None, grammar: bool = True) -> str:
        """Half-close, read to the end, hold the stream to the grammar. Returns the status code's name."""
        if half_close:
            await self.half_close()
        while await self.read() is not None:
            pass
        code: grpc.StatusCode = await self.call.code()
        self.trace.ended(code.value[0])
        for key, value in await self.call.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                self.status = status_pb2.Status.FromString(value)
        if grammar:
            self.trace.check(check)
        return code.name

    @property
    def reason(self) -> str:
        """`ErrorInfo.reason` of the status; empty where there is none."""
        info = error_details_pb2.ErrorInfo()
        for detail in self.status.details if self.status else ():
            if detail.Unpack(info):
                assert info.domain == "monopath.v1"
                return str(info.reason)
        return ""

    @property
    def violated_fields(self) -> list[str]:
        """Fields that the status's `BadRequest` names."""
        found = error_details_pb2.BadRequest()
        for detail in self.status.details if self.status else ():
            if detail.Unpack(found):
                return [violation.field for violation in found.field_violations]
        return []

    @property
    def ended_ids(self) -> list[int]:
        """Ids in the order in which their items ended."""
        ends = [getattr(event, event.WhichOneof("payload")) for event in self.events if self._is_end(event)]
        return [end.id for end in ends]

    @staticmethod
    def _is_end(event: Any) -> bool:
        return event.WhichOneof("payload") in ("completion", "error")

    def _take(self, response: Any) -> None:
        arm = response.WhichOneof("payload")
        payload = getattr(response, arm)
        match arm:
            case "ready" | "failure" | "summary":
                setattr(self, arm, payload)
            case "plan" | "completion" | "error":
                setattr(self.outcomes.setdefault(payload.id, Outcome()), arm, payload)
            case "features":
                self._take_features(self.outcomes.setdefault(payload.id, Outcome()), payload)
            case _:
                pass

    def _take_features(self, outcome: Outcome, features: Any) -> None:
        if features.WhichOneof("location") == "shared_memory":
            outcome.mapped = MappedSegment.open(self.directory, features.shared_memory)
            outcome.data.extend(outcome.mapped.data)
        else:
            outcome.data.extend(features.chunk.data)


@dataclass
class Rig:
    """A running server and a channel to it."""

    server: Server
    channel: grpc.aio.Channel

    @property
    def directory(self) -> Path:
        """Where the server's shared memory is; the usual one where it has none."""
        memory = self.server.engines.shared_memory
        return DEFAULT_DIRECTORY if memory is None else memory.directory

    async def open(self, config: Any = None, path: PathName = "deferred_cpu") -> RawStream:
        """An open stream: its config was sent and `ready` was read."""
        stream = RawStream(self.channel, path, self.directory)
        await stream.send(config if config is not None else make_config(path))
        await stream.read_until("ready")
        return stream

    async def run(self, requests: Sequence[Any], config: Any = None, path: PathName = "deferred_cpu") -> RawStream:
        """A whole good stream: open, send, half-close, read to the end."""
        stream = await self.open(config, path)
        await stream.send(*requests)
        assert await stream.finish() == "OK"
        return stream


@contextlib.asynccontextmanager
async def running_rig(settings: Settings | None = None) -> AsyncIterator[Rig]:
    """A server in this event loop and a channel to it. On the way out no stream may have left memory behind."""
    # A client in a process of its own does not wait for all that a server imports.
    from monopath_server.app import Server

    async with Server(settings or quick_settings()) as server, grpc.aio.insecure_channel(server.address) as channel:
        yield Rig(server, channel)
    assert server.engines.buffers.held_bytes == 0
    assert server.engines.lease_count == 0
    if server.engines.shared_memory is not None:
        assert server.engines.shared_memory.pool.held_bytes == 0
