"""Results as the messages that SMG, the gateway, sends to its engines. Needs `pip install 'monopath[smg]'`.

Messages are those of `smg-grpc-proto`: `MultimodalInputs`, `TensorData` and `PlaceholderRange` of vllm_engine.proto,
sglang_scheduler.proto and tokenspeed_scheduler.proto. Keys and layouts are those of SMG's own processors and servicers
(smg-project/smg, crates/multimodal/src/registry, grpc_servicer/smg_grpc_servicer/vllm/servicer.py): rows of all images
in one tensor, which `patches_per_image` splits. Tensors go inline; a gRPC message of theirs holds all of a request, so
mind the limits of both ends: bfloat16 or uint8 features are a half or a quarter of float32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from monopath._paths import PathT
from monopath._results import Result
from monopath.adapters._batch import EngineBatch, engine_batch
from monopath.adapters.digests import MediaDigest, media_digest

try:
    from smg_grpc_proto.generated import common_pb2, sglang_scheduler_pb2, tokenspeed_scheduler_pb2, vllm_engine_pb2
except ModuleNotFoundError as error:
    raise ImportError("Expected the package smg-grpc-proto, got none: pip install 'monopath[smg]'") from error

if TYPE_CHECKING:
    from monopath._records import FeatureArray, Ready
    from monopath.prompts import ImageRange

__all__ = ["sglang_inputs", "tokenspeed_inputs", "vllm_inputs"]

_MessageT = TypeVar("_MessageT")

_SIZES_KEY = "patches_per_image"


def vllm_inputs(
    results: Iterable[Result[PathT]],
    ready: Ready,
    ranges: Sequence[ImageRange],
    *,
    placeholder_id: int | None = None,
    digest: MediaDigest = media_digest,
) -> vllm_engine_pb2.MultimodalInputs:
    """Return `mm_inputs` of vLLM's `GenerateRequest`, beside the ids of the expanded prompt.

    `ranges` are those of the expanded prompt, one for each result; `placeholder_id` is the image token's.

    Raises the first failed item's `ItemError`; ValueError for no results, for ones of different paths, configs or
    element types, or of another config than `ready`'s, and for another number of ranges; RuntimeError where features
    are on a GPU, or were released.
    """
    batch = _batch(results, ready, ranges)
    grid_key = batch.layout.grid_key
    return vllm_engine_pb2.MultimodalInputs(
        pixel_values=_vllm_tensor(_rows(batch)),
        model_specific_tensors={
            grid_key: _vllm_tensor(batch.grids()),
            _SIZES_KEY: _vllm_tensor(np.array(batch.patch_counts, np.int64)),
        },
        im_token_id=placeholder_id,
        mm_placeholders=_placeholders(vllm_engine_pb2.PlaceholderRange, ranges),
        mm_hashes=[digest(result).hex() for result in batch.results],
        batched_keys=[grid_key, _SIZES_KEY],
        flat_keys={"pixel_values": _SIZES_KEY},
        keep_on_cpu_keys=[grid_key] if batch.layout.keeps_grid_on_cpu else [],
        modality=common_pb2.IMAGE,
    )


def sglang_inputs(
    results: Iterable[Result[PathT]],
    ready: Ready,
    ranges: Sequence[ImageRange],
    *,
    placeholder_id: int | None = None,
) -> sglang_scheduler_pb2.MultimodalInputs:
    """Return `mm_inputs` of sglang's `GenerateRequest`. Arguments and errors are those of `vllm_inputs`."""
    batch = _batch(results, ready, ranges)

    def tensor(array: FeatureArray) -> sglang_scheduler_pb2.TensorData:
        return sglang_scheduler_pb2.TensorData(data=array.tobytes(), shape=array.shape, dtype=array.dtype.name)

    return sglang_scheduler_pb2.MultimodalInputs(
        pixel_values=tensor(_rows(batch)),
        model_specific_tensors={
            batch.layout.grid_key: tensor(batch.grids()),
            _SIZES_KEY: tensor(np.array(batch.patch_counts, np.int64)),
        },
        modalities=["image"] * len(batch.results),
        im_token_id=placeholder_id,
        mm_placeholders=_placeholders(sglang_scheduler_pb2.PlaceholderRange, ranges),
    )


def tokenspeed_inputs(
    results: Iterable[Result[PathT]],
    ready: Ready,
    ranges: Sequence[ImageRange],
    *,
    placeholder_id: int | None = None,
    digest: MediaDigest = media_digest,
) -> tokenspeed_scheduler_pb2.MultimodalInputs:
    """Return `mm_inputs` of TokenSpeed's requests to encoders and schedulers: one item for each image.

    Arguments and errors are those of `vllm_inputs`.
    """
    batch = _batch(results, ready, ranges)
    grids = batch.grids()

    def tensor(array: FeatureArray) -> tokenspeed_scheduler_pb2.TensorData:
        return tokenspeed_scheduler_pb2.TensorData(inline=array.tobytes(), shape=array.shape, dtype=array.dtype.name)

    return tokenspeed_scheduler_pb2.MultimodalInputs(
        items=[
            tokenspeed_scheduler_pb2.MultimodalItem(
                modality=common_pb2.IMAGE,
                content_hash=digest(result),
                encoder_input=tensor(batch.array(result)),
                model_specific_tensors={
                    batch.layout.grid_key: tensor(grids[place : place + 1]),
                    _SIZES_KEY: tensor(np.array(batch.patch_counts[place : place + 1], np.int64)),
                },
                placeholders=_placeholders(tokenspeed_scheduler_pb2.PlaceholderRange, ranges[place : place + 1]),
                placeholder_token_id=placeholder_id,
            )
            for place, result in enumerate(batch.results)
        ]
    )


def _batch(results: Iterable[Result[PathT]], ready: Ready, ranges: Sequence[ImageRange]) -> EngineBatch[PathT]:
    batch = engine_batch(results, ready)
    if len(ranges) != len(batch.results):
        raise ValueError(f"Expected {len(batch.results)} ranges, one for each result, got {len(ranges)}")
    return batch


def _rows(batch: EngineBatch[Any]) -> FeatureArray:
    """Rows of all images; of a single one without a copy."""
    arrays = [batch.array(result) for result in batch.results]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _vllm_tensor(array: FeatureArray) -> vllm_engine_pb2.TensorData:
    return vllm_engine_pb2.TensorData(inline=array.tobytes(), shape=array.shape, dtype=array.dtype.name)


def _placeholders(message: type[_MessageT], ranges: Sequence[ImageRange]) -> list[_MessageT]:
    return [message(offset=image.offset, length=image.length) for image in ranges]  # type: ignore[call-arg]
