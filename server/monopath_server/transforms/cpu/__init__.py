"""The CPU transform: one fused kernel that resizes, composites, pads, normalises and patchifies an image."""

from __future__ import annotations

from monopath_server.transforms.cpu.transform import CpuTransform

__all__ = ["CpuTransform"]
