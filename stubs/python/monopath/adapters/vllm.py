"""Results as vLLM takes them: multimodal kwargs, how they are split, hashes and placeholders.

Names are those of vLLM (vllm/): `MultiModalFieldConfig.flat_from_sizes` and `.batched`, `PlaceholderRange`,
`mm_hashes` in multimodal/inputs.py; `pixel_values` with `grid_thws`, `image_grid_hws` or `image_grid_thw` and their
fields in model_executor/models/{kimi_k25,kimi_k3,kimi_vl,qwen2_vl,glm4_1v}.py. No engine is imported; with one:

    inputs = multimodal_inputs(results, stream.ready)
    fields = {key: field.build(MultiModalFieldConfig) for key, field in inputs.fields.items()}
    mm_kwargs = MultiModalKwargsItems.from_hf_inputs(BatchFeature(inputs.kwargs), fields)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from monopath._enums import DataType
from monopath._paths import PathT
from monopath._results import Result
from monopath.adapters._batch import engine_batch
from monopath.adapters.digests import MediaDigest, media_digest

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import torch

    from monopath._records import Ready
    from monopath.prompts import ImageRange

__all__ = ["Field", "MultimodalInputs", "multimodal_inputs"]


@dataclass(frozen=True, slots=True)
class Field:
    """How one of the kwargs is split into images."""

    modality: str
    sizes: tuple[int, ...] | None
    """Rows of each image, for `flat_from_sizes`. None: `batched`, one row each."""
    keep_on_cpu: bool = False

    def build(self, field_config: Any) -> Any:
        """Return what vLLM's class `MultiModalFieldConfig`, which is to be given, makes of it."""
        import torch

        if self.sizes is None:
            return field_config.batched(self.modality, keep_on_cpu=self.keep_on_cpu)
        return field_config.flat_from_sizes(self.modality, torch.tensor(self.sizes), keep_on_cpu=self.keep_on_cpu)


@dataclass(frozen=True, slots=True, eq=False)
class MultimodalInputs:
    """Everything that a request's images come to."""

    kwargs: Mapping[str, torch.Tensor]
    """What the model's forward takes: `pixel_values` of all images, and their grids."""
    fields: Mapping[str, Field]
    """How each of them is split into images."""
    mm_hashes: Mapping[str, list[str]]
    """By modality, one for each image; what vLLM's caches of processed inputs and of embeddings go by."""
    mm_placeholders: Mapping[str, tuple[ImageRange, ...]]
    """By modality: offset and length of each image's tokens in the expanded prompt. Empty where none was given."""
    normalize_table: npt.NDArray[np.float32] | None
    """Where `pixel_values` are uint8: what finishes them, float32 [3, 256], as `monopath.adapters.torch.normalize`
    does. Models that normalise on the device (Qwen2-VL and later, GLM-4.1V) take them as they are; their own fused
    multiply and add gives the same bfloat16 values. None for other element types."""


def multimodal_inputs(
    results: Iterable[Result[PathT]],
    ready: Ready,
    *,
    ranges: Sequence[ImageRange] = (),
    modality: str = "image",
    digest: MediaDigest = media_digest,
) -> MultimodalInputs:
    """Put a request's images together. The features are copied once; the results may be released then.

    `ranges` are those of the expanded prompt. `modality` is "vision_chunk" for Kimi-K2.5, which calls images so.

    Raises the first failed item's `ItemError`; ValueError for no results, for ones of different paths, configs or
    element types, or of another config than `ready`'s, and for another number of ranges; ImportError without torch.
    """
    import torch

    batch = engine_batch(results, ready)
    if ranges and len(ranges) != len(batch.results):
        raise ValueError(f"Expected {len(batch.results)} ranges, one for each result, got {len(ranges)}")
    grid_key = batch.layout.grid_key
    return MultimodalInputs(
        kwargs={
            "pixel_values": torch.cat([batch.tensor(result) for result in batch.results]),
            grid_key: torch.from_numpy(batch.grids()),
        },
        fields={
            "pixel_values": Field(modality, batch.patch_counts),
            grid_key: Field(modality, None, keep_on_cpu=batch.layout.keeps_grid_on_cpu),
        },
        mm_hashes={modality: [digest(result).hex() for result in batch.results]},
        mm_placeholders={modality: tuple(ranges)} if ranges else {},
        normalize_table=ready.normalize_table if batch.results[0].plan.data_type == DataType.UINT8 else None,
    )
