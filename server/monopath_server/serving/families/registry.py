"""All families that have a message."""

from __future__ import annotations

from monopath.v1 import config_pb2
from monopath_server.processors.family import ProcessorConfig
from monopath_server.serving.families.adapter import FamilyAdapter
from monopath_server.serving.families.fixed_size import FIXED_SIZE
from monopath_server.serving.families.glm_next import GLM_NEXT
from monopath_server.serving.families.glm_vl import GLM_VL
from monopath_server.serving.families.intern_vl import INTERN_VL
from monopath_server.serving.families.kimi import KIMI
from monopath_server.serving.families.kimi_vl import KIMI_VL
from monopath_server.serving.families.qwen_vl import QWEN_VL

__all__ = ["ADAPTERS", "processor_message", "read_typed"]

ADAPTERS: list[FamilyAdapter] = [KIMI, KIMI_VL, QWEN_VL, GLM_VL, GLM_NEXT, FIXED_SIZE, INTERN_VL]


def read_typed(message: config_pb2.ProcessorConfig, arm: str) -> ProcessorConfig:
    """Read the typed config in the field `arm`. Raises LookupError for a field without an adapter."""
    for adapter in ADAPTERS:
        if adapter.arm == arm:
            return adapter.read(message)
    raise LookupError(f"Expected a family's message, got {arm}")


def processor_message(config: ProcessorConfig) -> config_pb2.ProcessorConfig:
    """The typed message of a config, every field present. Raises LookupError for a config without an adapter."""
    for adapter in ADAPTERS:
        if type(config) is adapter.config_type:
            return adapter.write(config)
    raise LookupError(f"Expected the config of a family that has a message, got {type(config).__name__}")
