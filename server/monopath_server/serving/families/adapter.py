"""What serving needs to know of a family's message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from monopath.v1 import config_pb2
from monopath_server.processors.family import ProcessorConfig

__all__ = ["FamilyAdapter"]


@dataclass(frozen=True, slots=True)
class FamilyAdapter:
    """From a family's message to its config, and back."""

    arm: str
    """Name of the message's field in `ProcessorConfig.source`."""
    config_type: type[ProcessorConfig]
    read: Callable[[config_pb2.ProcessorConfig], ProcessorConfig]
    """Reads a message that breaks none of the contract's rules; whether the config holds is asked afterwards. Raises
    `ConfigFault` for a message that lacks what no rule asks for, such as the arm of a oneof."""
    write: Callable[[ProcessorConfig], config_pb2.ProcessorConfig]
    """Writes every field of the family's message, defaults too."""
