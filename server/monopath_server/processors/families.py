"""The model families that this server knows."""

from __future__ import annotations

from monopath_server.processors.family import Family
from monopath_server.processors.kimi.family import KIMI
from monopath_server.processors.qwen_vl.family import QWEN_VL

__all__ = ["FAMILIES"]

FAMILIES: tuple[Family, ...] = (KIMI, QWEN_VL)
