"""Limits so small that most small images are resized, in the keys of each family but Kimi's own."""

from __future__ import annotations

from typing import Any, Final

from monopath.cli.faults import needs_server

try:
    from monopath_server.reference.families import AnyReference
    from monopath_server.reference.fixed_size import FixedSizeReference
    from monopath_server.reference.intern_vl import InternVlReference
    from monopath_server.reference.windowed import WindowedReference
except ModuleNotFoundError as error:
    raise needs_server("`monopath verify`", error) from None

__all__ = ["set_small_limits"]

_SMALL_TOKEN_COUNTS: Final = (2, 6)
"""Fewest and most tokens, for families that have such bounds."""
_SMALL_PATCH_LIMIT: Final = 6
_SMALL_TILE_PX: Final = 28


def set_small_limits(checkpoint: dict[str, Any], reference: AnyReference) -> None:
    """Change the keys of a file, flat. `reference` is what it said before."""
    match reference:
        case WindowedReference():
            _set_small_areas(checkpoint, reference)
        case FixedSizeReference(crop=None):
            checkpoint["size"] = {"height": 48, "width": 40}
        case FixedSizeReference():
            # Lower than the crop: there are zeros above and below, an odd number of them.
            checkpoint["size"] = {"shortest_edge": 30}
            checkpoint["crop_size"] = {"height": 33, "width": 28}
        case InternVlReference() if "max_dynamic_patch" in checkpoint:
            checkpoint.update(force_image_size=_SMALL_TILE_PX, max_dynamic_patch=6)
        case InternVlReference():
            side = {"height": _SMALL_TILE_PX, "width": _SMALL_TILE_PX}
            checkpoint.update(size=side, max_patches=6)
        case _:
            checkpoint["in_token_limit"] = _SMALL_PATCH_LIMIT


def _set_small_areas(checkpoint: dict[str, Any], reference: WindowedReference) -> None:
    fewest, most = _SMALL_TOKEN_COUNTS
    if reference.rule == "glm_next":
        checkpoint.update(min_image_tokens=fewest, max_image_tokens=most)
        return
    token_px = (reference.patch_size * reference.merge_size) ** 2
    if reference.rule == "glm":
        token_px *= reference.temporal_patch_size
    for key in ("min_pixels", "max_pixels"):
        checkpoint.pop(key, None)
    checkpoint["size"] = {"shortest_edge": fewest * token_px, "longest_edge": most * token_px}
