"""Plain values, written as the contract's events."""

from __future__ import annotations

import PIL
from google.protobuf import duration_pb2

import monopath_server
from monopath.v1 import config_pb2, event_pb2, path_pb2, tensor_pb2
from monopath_server.engine.items import Provenance, Timings
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.types import ElementType
from monopath_server.serving.configs import OutputSettings, ResolvedProcessor
from monopath_server.serving.enums import RESAMPLE_KERNELS, ROUTES
from monopath_server.serving.families.registry import processor_message
from monopath_server.serving.status import violation_messages
from monopath_server.settings import Settings
from monopath_server.transforms.tables import normalize_table

__all__ = ["limits_message", "provenance_message", "ready_message", "timings_message"]


def ready_message(
    path: path_pb2.PreprocessingPath.ValueType,
    processor: ResolvedProcessor,
    output: OutputSettings,
    device: str,
    offer: event_pb2.SharedMemoryOffer | event_pb2.CudaIpcOffer | None,
    settings: Settings,
) -> event_pb2.Ready:
    """The opening's answer."""
    return event_pb2.Ready(
        path=path,
        processor=processor_message(processor.config),
        config_sha256=processor.sha256,
        warnings=violation_messages(processor.warnings),
        limits=limits_message(settings, output.chunk_bytes),
        normalize_table=_normalize_table_message(processor.config)
        if output.element_type is ElementType.UINT8
        else None,
        device=device,
        server_version=monopath_server.__version__,
        shared_memory=offer if isinstance(offer, event_pb2.SharedMemoryOffer) else None,
        cuda_ipc=offer if isinstance(offer, event_pb2.CudaIpcOffer) else None,
    )


def limits_message(settings: Settings, chunk_bytes: int) -> event_pb2.StreamLimits:
    """What a stream takes."""
    return event_pb2.StreamLimits(
        max_unfinished_items=settings.max_unfinished_items,
        max_unfinished_bytes=settings.max_unfinished_bytes,
        max_unfinished_pixels=settings.max_unfinished_pixels,
        max_image_bytes=settings.image_limits.max_encoded_bytes,
        max_image_side_px=settings.image_limits.max_side_px,
        max_image_pixels=settings.image_limits.max_pixels,
        max_feature_bytes=settings.max_feature_bytes,
        max_request_bytes=settings.max_request_bytes,
        chunk_bytes=chunk_bytes,
    )


def provenance_message(path: path_pb2.PreprocessingPath.ValueType, provenance: Provenance) -> event_pb2.Provenance:
    """From what and by what features were made."""
    return event_pb2.Provenance(
        path=path,
        config_sha256=provenance.config_sha256,
        content_sha256=provenance.content_sha256,
        resample_kernel=RESAMPLE_KERNELS.to_wire(provenance.resample_kernel)
        if provenance.resample_kernel
        else config_pb2.RESAMPLE_KERNEL_UNSPECIFIED,
        route=ROUTES.to_wire(provenance.route),
        pillow_version=PIL.__version__,
        server_version=monopath_server.__version__,
    )


def timings_message(timings: Timings) -> event_pb2.ItemTimings:
    """Where an item's time went."""
    return event_pb2.ItemTimings(
        planning=_duration(timings.planning_ns),
        queued=_duration(timings.queued_ns),
        decoding=_duration(timings.decoding_ns),
        transforming=_duration(timings.transforming_ns),
    )


def _normalize_table_message(config: ProcessorConfig) -> tensor_pb2.Tensor:
    arithmetic = config.arithmetic
    table = normalize_table(arithmetic.image_mean, arithmetic.image_std, arithmetic.normalization)
    return tensor_pb2.Tensor(
        spec=tensor_pb2.TensorSpec(data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=table.shape, size_bytes=table.nbytes),
        data=table.astype("<f4").tobytes(),
    )


def _duration(nanoseconds: int) -> duration_pb2.Duration:
    return duration_pb2.Duration(seconds=nanoseconds // 1_000_000_000, nanos=nanoseconds % 1_000_000_000)
