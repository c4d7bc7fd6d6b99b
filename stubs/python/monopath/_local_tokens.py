"""The token count of finished features, as the config of their stream gives it. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from monopath._images import LocalFeatures
    from monopath.v1 import config_pb2

__all__ = ["token_count"]


def token_count(features: LocalFeatures, shape: tuple[int, ...], processor: config_pb2.ProcessorConfig) -> int:
    """Return what the caller said, else what follows from the features' grid, or from their `shape` where they have no
    grid; 0 where the config does not say how many."""
    if features.token_count is not None:
        return features.token_count
    match processor.WhichOneof("source"):
        case "intern_vl":
            return shape[0] * processor.intern_vl.tokens_per_tile
        case "fixed_size":
            fixed = processor.fixed_size
            if not fixed.patch_size or len(shape) != 4:
                return 0
            return (shape[2] // fixed.patch_size) * (shape[3] // fixed.patch_size) + fixed.class_token_count
        case "kimi" if processor.kimi.HasField("fixed_output_tokens"):
            return processor.kimi.fixed_output_tokens
        case _:
            pass
    grid = features.grid_thw
    if grid is None:
        return 0
    merge_size = max(1, _merge_size(processor))
    return grid.t * (grid.h // merge_size) * (grid.w // merge_size)


def _merge_size(processor: config_pb2.ProcessorConfig) -> int:
    """Patches a side of what becomes one token; 1 for a family that this release does not know."""
    match processor.WhichOneof("source"):
        case "kimi":
            return processor.kimi.merge_kernel_size
        case "kimi_vl":
            return processor.kimi_vl.merge_kernel_size
        case "qwen_vl":
            return processor.qwen_vl.merge_size
        case "glm_vl":
            return processor.glm_vl.merge_size
        case "glm_next":
            return processor.glm_next.merge_size
        case _:
            return 1
