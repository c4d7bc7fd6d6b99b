"""What a model family is to the rest of the server: a typed config that plans images, and a reader of its JSON.

Engines, transforms, delivery and sessions know `ProcessorConfig` alone. A family is one package of config, geometry,
JSON and presets, its entry in `families.FAMILIES`, and the adapter of its message in `serving.families`.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from monopath_server.faults import ConfigFault, ConfigViolation
from monopath_server.processors.arithmetic import PixelArithmetic
from monopath_server.processors.types import AlphaPolicy, ImagePlan, OrientationPolicy, ResampleKernel, Size

__all__ = ["CanonicalForm", "Family", "Overrides", "ParsedConfig", "ProcessorConfig", "overridden"]

CanonicalForm: TypeAlias = dict[str, Any]
"""JSON values only, floats as the hexadecimal digits of their 64 bits."""


@dataclass(frozen=True)  # without slots, or subclasses could not keep what follows from their fields
class ProcessorConfig(abc.ABC):
    """All that decides the bytes and the token count of an image. Frozen and hashable; one subclass for each family."""

    family: ClassVar[str]
    """Name of the family, part of the digest."""
    kernels: ClassVar[tuple[ResampleKernel, ...]]
    """The resize arithmetics that the family has a reference for."""

    @property
    @abc.abstractmethod
    def arithmetic(self) -> PixelArithmetic:
        """What the transforms need."""

    @abc.abstractmethod
    def plan(self, size: Size) -> ImagePlan:
        """Plan one image of `size` pixels. Raises `ItemFault` for a size that the family refuses."""

    @abc.abstractmethod
    def violations(self) -> tuple[ConfigViolation, ...]:
        """Find every value that is out of range, named as in the family's message; empty where it can be served."""

    @abc.abstractmethod
    def canonical_form(self) -> CanonicalForm:
        """Every field that can change a pixel or a token count, so that equal meanings have equal forms."""


ConfigT_co = TypeVar("ConfigT_co", bound=ProcessorConfig, covariant=True)


@dataclass(frozen=True, slots=True)
class ParsedConfig(Generic[ConfigT_co]):
    """A config and what was odd, but harmless, about its text."""

    config: ConfigT_co
    warnings: tuple[ConfigViolation, ...]
    """Unknown keys, which were ignored."""


@dataclass(frozen=True, slots=True)
class Family:
    """How a family's configs come from a checkpoint."""

    name: str
    image_processor_types: frozenset[str]
    """Names of its processor classes, without the suffixes Fast and Pil, which name a backend."""
    own_keys: frozenset[str]
    """Keys that no other family has: they tell the family where a file names no processor class."""
    parse: Callable[[dict[str, object], str], ParsedConfig[ProcessorConfig]]
    """Reads the object that holds the processor's keys; the second argument is its path, ending in a dot, or empty.
    Raises `ConfigFault` with every bad key at once."""
    presets: Mapping[str, ProcessorConfig]
    outer_keys: frozenset[str] = frozenset()
    """Keys that a `processor_config.json` has beside its `image_processor`, and that this family reads."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What a client may ask for besides a preset or a checkpoint's file, which do not name it. None: the default."""

    resample_kernel: ResampleKernel | None = None
    orientation: OrientationPolicy | None = None
    alpha: AlphaPolicy | None = None


_FIELDS_ON_THE_WIRE = {
    "resample_kernel": "resample_kernel",
    "orientation": "orientation_policy",
    "alpha": "alpha_policy",
}


def overridden(config: ProcessorConfig, overrides: Overrides) -> ProcessorConfig:
    """Return the config with what is asked for.

    Raises:
        ConfigFault: the family has no such choice, or not this one; fields are named as on the wire.
    """
    has = {field.name for field in dataclasses.fields(config)}
    changes: dict[str, Any] = {}
    violations = []
    for name, wire_name in _FIELDS_ON_THE_WIRE.items():
        value = getattr(overrides, name)
        if value is None:
            continue
        if name in has:
            changes[name] = value
        else:
            violations.append(
                ConfigViolation(wire_name, f"Expected none for the family {config.family}, got {value.name}")
            )
    changed = dataclasses.replace(config, **changes)
    violations += changed.violations()
    if violations:
        raise ConfigFault(tuple(violations))
    return changed
