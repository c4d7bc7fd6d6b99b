"""The model families that this server knows."""

from __future__ import annotations

from monopath_server.processors.family import Family
from monopath_server.processors.fixed_size.family import CLIP, SIGLIP
from monopath_server.processors.glm_next.family import GLM_NEXT
from monopath_server.processors.glm_vl.family import GLM_VL
from monopath_server.processors.intern_vl.family import INTERN_VL
from monopath_server.processors.kimi.family import KIMI
from monopath_server.processors.kimi_vl.family import KIMI_VL
from monopath_server.processors.qwen_vl.family import QWEN_VL

__all__ = ["FAMILIES"]

FAMILIES: tuple[Family, ...] = (KIMI, KIMI_VL, QWEN_VL, GLM_VL, GLM_NEXT, CLIP, SIGLIP, INTERN_VL)
