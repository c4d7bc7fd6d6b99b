"""What the reference needs to know of a released checkpoint."""

from __future__ import annotations

from monopath_server.reference import RELEASED_PRESETS, ReferenceConfig

__all__ = ["reference_config"]


def reference_config(preset: str) -> ReferenceConfig:
    """Return the reference's config of a preset."""
    return ReferenceConfig.from_checkpoint_json({"media_proc_cfg": RELEASED_PRESETS[preset]})
