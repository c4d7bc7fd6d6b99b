"""The fields that Qwen-VL and the GLM families share, and what follows from them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from monopath_server.faults import ConfigViolation
from monopath_server.processors.arithmetic import PixelArithmetic
from monopath_server.processors.backends import BackendConfig
from monopath_server.processors.family import CanonicalForm
from monopath_server.processors.ranges import outside, wrong_constants
from monopath_server.processors.types import RowLayout

__all__ = ["WindowedConfig"]

MAX_PATCH_SIZE = 64
MAX_TEMPORAL_PATCH_SIZE = 8
MAX_MERGE_SIZE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowedConfig(BackendConfig):
    """RGB first, then one resize; rows of patches grouped by the windows that become tokens, each frame repeated.

    Names are those of `preprocessor_config.json`.
    """

    patch_size: int
    """Side of a patch in pixels."""
    temporal_patch_size: int
    """Frames of a row of features; a still image is repeated so often."""
    merge_size: int
    """Side of the window of patches that becomes one token, in patches."""

    @functools.cached_property
    def arithmetic(self) -> PixelArithmetic:
        return self._backend_arithmetic(
            RowLayout(self.patch_size, self.patch_size, self.merge_size, self.temporal_patch_size)
        )

    def violations(self) -> tuple[ConfigViolation, ...]:
        return (*self._common_violations(), *self._own_violations())

    def canonical_form(self) -> CanonicalForm:
        return {
            "patch_size": self.patch_size,
            "temporal_patch_size": self.temporal_patch_size,
            "merge_size": self.merge_size,
            **self._backend_form(),
            **self._own_form(),
        }

    def _common_violations(self) -> Iterator[ConfigViolation]:
        yield from outside("patch_size", self.patch_size, 1, MAX_PATCH_SIZE)
        yield from outside("temporal_patch_size", self.temporal_patch_size, 1, MAX_TEMPORAL_PATCH_SIZE)
        yield from outside("merge_size", self.merge_size, 1, MAX_MERGE_SIZE)
        yield from wrong_constants(self.image_mean, self.image_std)

    def _own_violations(self) -> Iterator[ConfigViolation]:
        """Find what is wrong with the fields of the family alone."""
        yield from ()

    def _own_form(self) -> CanonicalForm:
        """The fields of the family alone."""
        return {}
