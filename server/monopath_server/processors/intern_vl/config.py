"""The typed config of the InternVL image processor."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from monopath_server.faults import ConfigViolation
from monopath_server.processors.arithmetic import PixelArithmetic
from monopath_server.processors.backends import BackendConfig
from monopath_server.processors.family import CanonicalForm
from monopath_server.processors.intern_vl.geometry import plan_image
from monopath_server.processors.plans import TilePlan
from monopath_server.processors.ranges import outside, wrong_constants
from monopath_server.processors.types import RowLayout, Size

__all__ = ["InternVlConfig"]

MAX_TILE_SIZE = 1_024
MAX_TILES = 40
MAX_TOKENS_PER_TILE = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class InternVlConfig(BackendConfig):
    """All that decides the bytes and the token count of an image."""

    family: ClassVar[str] = "intern_vl"

    tile_size: int
    """Side of a tile in pixels."""
    min_tiles: int
    """Fewest tiles of an image, without the thumbnail, as `max_tiles`."""
    max_tiles: int
    has_thumbnail: bool
    """Whether the whole image follows as one more tile, where it has more than one."""
    tokens_per_tile: int | None
    """Tokens that the encoder's output has for a tile; None: not known."""

    @functools.cached_property
    def arithmetic(self) -> PixelArithmetic:
        return self._backend_arithmetic(RowLayout(self.tile_size, self.tile_size))

    def plan(self, size: Size) -> TilePlan:
        return plan_image(self, size)

    def violations(self) -> tuple[ConfigViolation, ...]:
        return tuple(self._violations())

    def canonical_form(self) -> CanonicalForm:
        return {
            "tile_size": self.tile_size,
            "min_tiles": self.min_tiles,
            "max_tiles": self.max_tiles,
            "has_thumbnail": self.has_thumbnail,
            "tokens_per_tile": self.tokens_per_tile,
            **self._backend_form(),
        }

    def _violations(self) -> Iterator[ConfigViolation]:
        yield from outside("tile_size", self.tile_size, 1, MAX_TILE_SIZE)
        yield from outside("min_tiles", self.min_tiles, 1, MAX_TILES)
        yield from outside("max_tiles", self.max_tiles, self.min_tiles, MAX_TILES)
        if self.tokens_per_tile is not None:
            yield from outside("tokens_per_tile", self.tokens_per_tile, 1, MAX_TOKENS_PER_TILE)
        yield from wrong_constants(self.image_mean, self.image_std)
