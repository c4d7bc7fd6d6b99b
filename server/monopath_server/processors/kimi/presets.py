"""The configs of released Kimi checkpoints, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.types import Background, BackgroundPattern, FillStage

__all__ = ["PRESETS"]

_HALF = (0.5, 0.5, 0.5)

PRESETS: Mapping[str, KimiConfig] = MappingProxyType(
    {
        "kimi-k2.5": KimiConfig(
            patch_size=14,
            merge_kernel_size=2,
            in_patch_limit=16_384,
            patch_limit_on_one_side=512,
            image_mean=_HALF,
            image_std=_HALF,
        ),
        "kimi-k3": KimiConfig(
            patch_size=14,
            merge_kernel_size=2,
            in_patch_limit=65_536,
            patch_limit_on_one_side=512,
            image_mean=_HALF,
            image_std=_HALF,
            transparent_background=Background(
                pattern=BackgroundPattern.CHESSBOARD,
                chessboard_square_size=8,
                chessboard_square_on_top_left=True,
                chessboard_white_value=255,
                chessboard_gray_value=180,
            ),
            transparent_fill_stage=FillStage.AFTER_RESIZE,
        ),
    }
)
