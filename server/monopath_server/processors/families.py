"""The model families that this server knows."""

from __future__ import annotations

from monopath_server.processors.family import Family
from monopath_server.processors.kimi.family import KIMI

__all__ = ["FAMILIES"]

FAMILIES: tuple[Family, ...] = (KIMI,)
