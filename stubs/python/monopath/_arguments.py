"""The keyword arguments that the methods of both clients share, and what is made of them. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Required, TypeAlias, TypedDict

from monopath._carriers import NewCarrier
from monopath._config import Config, output_config, processor_config
from monopath._enums import (
    AlphaName,
    DataType,
    DataTypeName,
    OrientationName,
    ResampleKernelName,
    ResultOrder,
    ResultOrderName,
    Transport,
    TransportName,
    transport_of,
)
from monopath._messages import InputT, PathAdapter
from monopath._opening import Opening
from monopath._paths import PathT, PreprocessingPath
from monopath._planning import SizeInput, plan_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from monopath.v1 import config_pb2, service_pb2

__all__ = ["CallMetadata", "PlanArguments", "ProcessorArguments", "StreamArguments", "opening", "plan_request_of"]

CallMetadata: TypeAlias = Sequence[tuple[str, str | bytes]]
"""Pairs of a lower-case name and a value; names that end in "-bin" have values of bytes."""


class ProcessorArguments(TypedDict, total=False):
    """What says the processor. Exactly one of the first three is to be given."""

    preset: str | None
    """Name of a config that the server has: "kimi-k3"."""
    config: Config | None
    """A typed config message."""
    checkpoint_json: str | None
    """The text of a checkpoint's `preprocessor_config.json`."""
    resample_kernel: ResampleKernelName | None
    """Replaces what the config says."""
    orientation: OrientationName | None
    """Replaces what the config says."""
    alpha: AlphaName | None
    """Replaces what the config says, in families that have the choice."""


class StreamArguments(ProcessorArguments, total=False):
    """What opens a stream."""

    data_type: Required[DataTypeName]
    """Element type of the features."""
    order: ResultOrderName
    """The order in which items end: "as_completed", or "as_sent"."""
    transport: TransportName
    """How features travel: "inline", "shared_memory", or "cuda_ipc"; see `Transport`. The last two need one host."""
    bypass_cache: bool
    """Make every item's features anew: neither take them from the server's cache nor put them there."""
    max_unfinished_items: int | None
    """Most items in flight, where that shall be less than what the server takes."""
    timeout_seconds: float | None
    """Bounds the whole stream, with all the streams that it moves to."""
    metadata: CallMetadata
    """Sent with the call."""


class PlanArguments(ProcessorArguments, total=False):
    """What asks for plans."""

    encoder_rank_count: int | None
    """Encoder ranks to share the images out to. None: no ranks are assigned."""
    data_type: DataTypeName | None
    """Element type of the tensors in the plans. None: plans without tensors."""
    timeout_seconds: float | None
    """Bounds the call."""
    metadata: CallMetadata
    """Sent with the call."""


def opening(
    adapter: PathAdapter[PathT, InputT],
    arguments: StreamArguments,
    new_carrier: Callable[[Transport], NewCarrier],
    *,
    device_uuid: str,
) -> Opening[PathT, InputT]:
    """Return what a stream is opened with. Raises TypeError or ValueError for arguments that cannot be."""
    _check_names(arguments, StreamArguments)
    if "data_type" not in arguments:
        raise TypeError("Expected the argument data_type, got none")
    data_type, order = arguments["data_type"], arguments.get("order", ResultOrder.AS_COMPLETED)
    transport = transport_of(arguments.get("transport", Transport.INLINE))
    if transport is Transport.CUDA_IPC and adapter.path is not PreprocessingPath.DEFERRED_CUDA:
        raise ValueError(f"Expected the transport cuda_ipc on the path DEFERRED_CUDA only, got it on {adapter.path}")
    return Opening(
        adapter=adapter,
        processor=_processor(arguments),
        output=output_config(data_type=data_type, order=order, bypass_cache=bool(arguments.get("bypass_cache", False))),
        data_type=DataType(data_type),
        order=ResultOrder(order),
        new_carrier=new_carrier(transport),
        device_uuid=device_uuid,
        max_unfinished_items=arguments.get("max_unfinished_items"),
        timeout_seconds=arguments.get("timeout_seconds"),
    )


def plan_request_of(
    sizes: Iterable[SizeInput], arguments: PlanArguments
) -> tuple[service_pb2.PlanRequest, float | None, tuple[tuple[str, str | bytes], ...]]:
    """Return the request, the timeout in seconds and the metadata. Raises as `opening` does."""
    _check_names(arguments, PlanArguments)
    request = plan_request(
        sizes,
        _processor(arguments),
        encoder_rank_count=arguments.get("encoder_rank_count"),
        data_type=arguments.get("data_type"),
    )
    return request, arguments.get("timeout_seconds"), tuple(arguments.get("metadata", ()))


def _check_names(arguments: Mapping[str, object], known: type) -> None:
    # Python itself accepts any name for arguments that are unpacked from a TypedDict.
    unknown = sorted(set(arguments) - set(known.__annotations__))
    if unknown:
        raise TypeError(f"Expected arguments of {', '.join(known.__annotations__)}, got {', '.join(unknown)}")


def _processor(arguments: ProcessorArguments) -> config_pb2.ProcessorConfig:
    return processor_config(
        preset=arguments.get("preset"),
        config=arguments.get("config"),
        checkpoint_json=arguments.get("checkpoint_json"),
        resample_kernel=arguments.get("resample_kernel"),
        orientation=arguments.get("orientation"),
        alpha=arguments.get("alpha"),
    )
