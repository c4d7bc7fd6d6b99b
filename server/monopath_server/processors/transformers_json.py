"""Keys that the image processors of `transformers` share, with the class defaults that they have there.

A key that is absent or null means the class default there. Here it is a warning too, since a default that is not in the
file changes with the release of the library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from monopath_server.faults import ConfigFault, ConfigViolation
from monopath_server.processors import json_values
from monopath_server.processors.backends import CLIP_MEAN, CLIP_STD
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.json_reader import IGNORED_KEYS, ObjectReader
from monopath_server.processors.json_values import RefusedValue, show
from monopath_server.processors.ranges import ChannelValues
from monopath_server.processors.types import ResampleFilter

__all__ = ["KeyReader", "WindowedFields"]

_Value = TypeVar("_Value")

_SWITCHES: Final = ("do_resize", "do_rescale", "do_normalize", "do_convert_rgb")
_FILTERS: Final = {2: ResampleFilter.BILINEAR, 3: ResampleFilter.BICUBIC}
_RESCALE_FACTOR: Final = 1 / 255
_INERT_KEYS: Final = IGNORED_KEYS | {
    "crop_size",
    "data_format",
    "default_to_square",
    "device",
    "disable_grouping",
    "do_center_crop",
    "do_pad",
    "input_data_format",
    "pad_size",
    "return_tensors",
}
_COMMON_KEYS: Final = frozenset({*_SWITCHES, "image_mean", "image_std", "resample", "rescale_factor"})
_WINDOW_KEYS: Final = frozenset({"merge_size", "patch_size", "temporal_patch_size"})


@dataclass(frozen=True, slots=True)
class WindowedFields:
    """What the families with windows and frames read."""

    patch_size: int
    temporal_patch_size: int
    merge_size: int
    image_mean: ChannelValues
    image_std: ChannelValues


@dataclass(slots=True)
class KeyReader:
    """Reads the keys of one object, and collects what is wrong or absent."""

    values: dict[str, object]
    prefix: str
    violations: list[ConfigViolation] = field(default_factory=list)
    warnings: list[ConfigViolation] = field(default_factory=list)

    def steps(self, own_keys: frozenset[str]) -> None:
        """Check that no step is switched off, and warn of keys that are neither shared, inert nor of `own_keys`."""
        reader = ObjectReader(self.values, self.prefix, self.violations)
        self.warnings += reader.unknown_keys(_COMMON_KEYS | _INERT_KEYS | own_keys)
        for key in _SWITCHES:
            reader.optional(key, _on, None)
        reader.optional("rescale_factor", _one_255th, None)

    def resample(self, *known: ResampleFilter) -> ResampleFilter:
        """Read the filter, which must be one of those that are known for the family; bicubic by default."""

        def read(value: object) -> ResampleFilter:
            found = ResampleFilter.BICUBIC if value is None else _filter(value)
            if found not in known:
                names = " or ".join(f"{number} ({name})" for number, name in _FILTERS.items() if name in known)
                raise RefusedValue(f"Expected {names} or null, got {show(value)}")
            return found

        return ObjectReader(self.values, self.prefix, self.violations).optional(
            "resample", read, ResampleFilter.BICUBIC
        )

    def windowed(self, own_keys: frozenset[str]) -> WindowedFields:
        """Check the steps, as `steps`, and read what all families with windows and frames have."""
        self.steps(own_keys | _WINDOW_KEYS)
        self.resample(ResampleFilter.BICUBIC)
        return WindowedFields(
            patch_size=self.or_default("patch_size", json_values.integer, 14),
            temporal_patch_size=self.or_default("temporal_patch_size", json_values.integer, 2),
            merge_size=self.or_default("merge_size", json_values.integer, 2),
            image_mean=self.or_default("image_mean", json_values.channel_values, CLIP_MEAN),
            image_std=self.or_default("image_std", json_values.channel_values, CLIP_STD),
        )

    def or_default(self, key: str, read: Callable[[object], _Value], default: _Value) -> _Value:
        """Read a key; absent or null it has the class default, which is a warning."""
        if self.values.get(key) is None:
            self.warnings.append(ConfigViolation(self.prefix + key, f"Absent, taken as {_text(default)}"))
            return default
        return ObjectReader(self.values, self.prefix, self.violations).optional(key, read, default)

    def check(self, config: ProcessorConfig, names: dict[str, str] | None = None) -> None:
        """Raise `ConfigFault` for all that is wrong. `names` are the file's, for fields that have others in it."""
        known = names or {}
        self.violations += [
            ConfigViolation(self.prefix + known.get(found.field, found.field), found.description)
            for found in config.violations()
        ]
        if self.violations:
            raise ConfigFault(tuple(self.violations))


def _text(value: object) -> str:
    return show(list(value)) if isinstance(value, tuple) else show(value)


def _on(value: object) -> None:
    """Steps that are switched off make other features than those this server is exact to."""
    if value is not None and value is not True:
        raise RefusedValue(f"Expected true or null, got {show(value)}")


def _filter(value: object) -> ResampleFilter | None:
    return _FILTERS.get(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _one_255th(value: object) -> None:
    if value is not None and value != _RESCALE_FACTOR:
        raise RefusedValue(f"Expected 1 / 255 or null, got {show(value)}")
