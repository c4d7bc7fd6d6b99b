"""One digest for one meaning: SHA-256 over a canonical form of a processor config."""

from __future__ import annotations

import hashlib
import json
import struct

from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.types import Background, BackgroundPattern

__all__ = ["config_digest"]

_FORM = "monopath.processor-config.v1"


def config_digest(config: KimiConfig) -> bytes:
    """Return the SHA-256 (32 bytes) over every field that can change a pixel or a token count.

    Floats enter as their 64 bits, since a difference far behind the comma can change a byte. Chessboard fields enter
    for a chessboard only, so that two configs of one meaning have one digest.
    """
    form = {
        "form": _FORM,
        "family": "kimi",
        "patch_size": config.patch_size,
        "merge_kernel_size": config.merge_kernel_size,
        "in_patch_limit": config.in_patch_limit,
        "patch_limit_on_one_side": config.patch_limit_on_one_side,
        "fixed_output_tokens": config.fixed_output_tokens,
        "image_mean": [_float64_bits(value) for value in config.image_mean],
        "image_std": [_float64_bits(value) for value in config.image_std],
        "transparent_background": _background_form(config.transparent_background),
        "transparent_fill_stage": config.transparent_fill_stage.value,
        "resample_kernel": config.resample_kernel.value,
        "orientation": config.orientation.value,
    }
    return hashlib.sha256(json.dumps(form, sort_keys=True, separators=(",", ":")).encode("ascii")).digest()


def _background_form(background: Background | None) -> dict[str, str | int] | None:
    if background is None:
        return None
    form: dict[str, str | int] = {"pattern": background.pattern.value}
    if background.pattern is BackgroundPattern.CHESSBOARD:
        form["square_size"] = background.chessboard_square_size
        form["square_on_top_left"] = int(background.chessboard_square_on_top_left)
        form["white_value"] = background.chessboard_white_value
        form["gray_value"] = background.chessboard_gray_value
    return form


def _float64_bits(value: float) -> str:
    # Adding 0.0 turns -0.0 into 0.0: the two give the same pixels.
    return struct.pack(">d", float(value) + 0.0).hex()
