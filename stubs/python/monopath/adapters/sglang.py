"""Results as sglang takes them: the fields of `MultimodalDataItem`, and the engine's `processor_output`.

Names are those of sglang (python/sglang/srt/): `MultimodalDataItem` and its `from_dict`, `hash` and `pad_value` in
managers/schedule_batch.py; `encoder_local_preprocessed` in multimodal/encoder_preprocessing.py; `parse_content_hash`
in multimodal/cache/identity.py; `image_grid_thw`,
`grid_thws` and `image_grid_hws` as multimodal/processors/{kimi_k25,kimi_k3,kimi_vl,qwen_vl,glm4v}.py and the models'
`get_image_feature` have them. Read of releases up to 0.5.23; no engine is imported.

    items = [MultimodalDataItem.from_dict(fields) for fields in item_fields(results, stream.ready)]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from monopath._paths import PathT
from monopath._results import Result
from monopath.adapters._batch import EngineBatch, engine_batch
from monopath.adapters.digests import MediaDigest, media_digest

if TYPE_CHECKING:
    import torch

    from monopath._records import Ready
    from monopath.prompts import ImageRange

__all__ = ["content_digest", "item_fields", "item_hash", "original_image_sizes", "pad_value", "processor_output"]

_MM_PAD_SHIFT_VALUE = 1_000_000
_PAD_VALUE_COUNT = 1 << 30


def item_fields(
    results: Iterable[Result[PathT]],
    ready: Ready,
    *,
    ranges: Sequence[ImageRange] | None = None,
    digest: MediaDigest = media_digest,
    encoder_local: bool = False,
) -> list[dict[str, Any]]:
    """Return the fields of one `MultimodalDataItem` for each image, for its `from_dict`.

    `feature` is a tensor over the result's memory, as the family's model takes it: Kimi's rows [rows, 3, height,
    width], Qwen's and GLM's flat. `ranges` are those of the expanded prompt and become `offsets`. `hash` is made from
    `digest`, so that equal images hit the cache of embeddings whichever path made them. `encoder_local` marks items of
    an encoder worker that are finished on the rank that owns them, as Kimi-K3's encoder wants all of a batch or none.

    Raises the first failed item's `ItemError`; ValueError for no results, for ones of different paths, configs or
    element types, or of another config than `ready`'s, and for another number of ranges; ImportError without torch.
    """
    batch = engine_batch(results, ready)
    if ranges is not None and len(ranges) != len(batch.results):
        raise ValueError(f"Expected {len(batch.results)} ranges, one for each result, got {len(ranges)}")
    grids = _grid_tensors(batch)
    items = []
    for place, result in enumerate(batch.results):
        data: dict[str, Any] = {key: grid[place : place + 1] for key, grid in grids.items()}
        if encoder_local:
            data["encoder_local_preprocessed"] = True
        number = item_hash(digest(result))
        items.append(
            {
                "modality": "IMAGE",
                "hash": number,
                "pad_value": pad_value(number),
                "offsets": None if ranges is None else [(ranges[place].offset, ranges[place].last)],
                "feature": batch.tensor(result),
                "model_specific_data": data,
            }
        )
    return items


def processor_output(results: Iterable[Result[PathT]], ready: Ready) -> dict[str, Any]:
    """Return one entry of `image_data` for `Engine.generate`, beside the expanded `input_ids`: all images in one.

    The form is docs.sglang.io/advanced_features/vlm_query.html's "processor output". Raises as `item_fields`.
    """
    import torch

    batch = engine_batch(results, ready)
    pixel_values = torch.cat([batch.tensor(result) for result in batch.results])
    return {"format": "processor_output", "pixel_values": pixel_values, **_grid_tensors(batch)}


def original_image_sizes(results: Iterable[Result[PathT]]) -> list[tuple[int, int]]:
    """Return width and height of each image in pixels: what Kimi-K3's `get_mm_data` frames the media with.

    Raises the first failed item's `ItemError`.
    """
    sizes = [result.plan.original_size for result in results]
    return [(size.width_px, size.height_px) for size in sizes]


def content_digest(result: Result[PathT]) -> str:
    """Return the SHA-256 of the image's bytes in the form that `parse_content_hash` takes: "sha256:" and 64 digits.

    Raises the item's `ItemError`, and ValueError where no digest was declared, which can be for LOCAL.
    """
    digest = result.provenance.content_sha256
    if not digest:
        raise ValueError("Expected a result with a content digest, got one without; give LocalFeatures content_sha256")
    return f"sha256:{digest.hex()}"


def item_hash(digest: bytes) -> int:
    """Return a `MultimodalDataItem.hash`: the first 64 bits of a SHA-256, as sglang's own hash of features is."""
    return int.from_bytes(digest[:8], "big")


def pad_value(hash_number: int) -> int:
    """Return the token id that stands for an item in the prefix cache, as sglang's `_compute_pad_value` does."""
    return _MM_PAD_SHIFT_VALUE + hash_number % _PAD_VALUE_COUNT


def _grid_tensors(batch: EngineBatch[PathT]) -> dict[str, torch.Tensor]:
    import torch

    grids = torch.from_numpy(batch.grids())
    if batch.layout.grid_key == "grid_thws":
        # Kimi's models read one or the other, depending on the release.
        return {"image_grid_thw": grids, "grid_thws": grids}
    return {batch.layout.grid_key: grids}
