"""Pixels at a size that can be looked at, and lines over them: patches, merge windows, the resized picture's edge."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from monopath.cli.preview_rows import Pixels

__all__ = ["EDGE_COLOR", "WINDOW_COLOR", "Fit", "Grid", "draw_frame", "draw_grid", "fit", "scaled"]

WINDOW_COLOR = (0, 229, 255)
EDGE_COLOR = (255, 109, 0)
_SHADOW = (0, 0, 0)
_WHITE = (255, 255, 255)
_MAX_MAGNIFICATION = 16
_MIN_PATCH_PX = 9.0
"""Patch lines that are closer hide the picture."""
_MIN_WINDOW_PX = 12.0
_DASH_PX = 3
_MIN_FRAME_PX = 9


@dataclass(frozen=True, slots=True)
class Fit:
    """How large a picture is drawn."""

    source_px: tuple[int, int]
    """(width, height)."""
    drawn_px: tuple[int, int]

    @property
    def scale(self) -> float:
        """Drawn pixels for each pixel of the source, along its longer side: the other one is rounded more."""
        return max(self.drawn_px) / max(self.source_px)

    @property
    def words(self) -> str:
        """The same for a caption, with the filter."""
        if self.drawn_px == self.source_px:
            return "drawn 1:1"
        if self.scale > 1:
            return f"drawn {self.scale:.0f}:1 (nearest)"
        return f"drawn 1:{1 / self.scale:.2g} (box filter)"


def fit(source_px: tuple[int, int], box_px: tuple[int, int]) -> Fit:
    """Fit a picture into a box: magnified by a whole number, as it is, or scaled down."""
    ratio = min(box_px[0] / source_px[0], box_px[1] / source_px[1])
    if ratio >= 1:
        factor = min(int(ratio), _MAX_MAGNIFICATION)
        return Fit(source_px, (source_px[0] * factor, source_px[1] * factor))
    return Fit(source_px, (max(1, round(source_px[0] * ratio)), max(1, round(source_px[1] * ratio))))


def scaled(pixels: Pixels, how: Fit) -> Pixels:
    """Return pixels [height, width, 3] at the size that they are drawn in; a copy."""
    if how.drawn_px == how.source_px:
        return pixels.copy()
    # Nearest by a whole number shows each pixel as a square, and box shows the mean of those that fall together.
    chosen = Image.Resampling.NEAREST if how.scale > 1 else Image.Resampling.BOX
    return np.array(Image.fromarray(pixels).resize(how.drawn_px, chosen))


@dataclass(frozen=True, slots=True)
class Grid:
    """What cuts a padded picture into patches and windows. Sizes are in its own pixels."""

    patch_px: int
    merge_size: int
    """Patches on a side of the window that becomes one token."""
    resized_px: tuple[int, int]
    """(width, height) of what is not padding."""
    unit: str = "window"
    """What stands in a window's place: a "tile", or a "patch" where each one is a token."""

    @property
    def window_px(self) -> int:
        """Side of a merge window."""
        return self.patch_px * self.merge_size

    def window_step(self, scale: float) -> int:
        """Return how many windows there are from one drawn line to the next: 1, or 2, 4, 8 where they are small."""
        return 1 << max(0, math.ceil(math.log2(_MIN_WINDOW_PX / (self.window_px * scale))))

    def shows_patches(self, scale: float) -> bool:
        """Whether there is room for a line at each patch."""
        return self.merge_size > 1 and self.patch_px * scale >= _MIN_PATCH_PX and self.window_step(scale) == 1

    def words(self, scale: float) -> str:
        """Return what the lines are, for a caption."""
        step = self.window_step(scale)
        if self.shows_patches(scale):
            return f"lines at each patch and {self.unit}"
        return f"lines at each {'' if step == 1 else '2nd ' if step == 2 else f'{step}th '}{self.unit}"


def draw_grid(drawn: Pixels, how: Fit, grid: Grid, origin_px: tuple[int, int] = (0, 0)) -> None:
    """Draw the lines into pixels that show a padded picture, or the part of it that begins at `origin_px`.

    The origin is (left, top) in pixels of the padded picture, and lies on the grid.
    """
    scale = how.scale
    thickness_px = 2 if grid.window_px * scale >= 48 else 1
    window_step_px = grid.window_px * grid.window_step(scale)
    for axis in (0, 1):
        # Axis 0 has the lines from left to right: those are at heights.
        lines = _Lines(drawn, axis, how.drawn_px[1 - axis] / how.source_px[1 - axis], how.source_px[1 - axis])
        origin = origin_px[1 - axis]
        if grid.shows_patches(scale):
            for position_px in lines.positions(origin, grid.patch_px):
                if (origin + position_px) % window_step_px:
                    lines.dashed(position_px)
        for position_px in lines.positions(origin, window_step_px):
            lines.solid(position_px, thickness_px, WINDOW_COLOR)
    for axis in (0, 1):
        lines = _Lines(drawn, axis, how.drawn_px[1 - axis] / how.source_px[1 - axis], how.source_px[1 - axis])
        edge_px = grid.resized_px[1 - axis] - origin_px[1 - axis]
        other_px = grid.resized_px[axis] - origin_px[axis]
        if 0 < edge_px < how.source_px[1 - axis]:
            end = round(other_px * how.drawn_px[axis] / how.source_px[axis])
            lines.solid(edge_px, 2, EDGE_COLOR, end=end)


def draw_frame(picture: Image.Image, box_px: tuple[int, int, int, int]) -> None:
    """Draw a white frame between black lines. The box is (left, top, right, bottom) in pixels of `picture`.

    What lies in the box stays visible; a box that is too small for the frame is grown, within the picture.
    """
    left, top, right, bottom = box_px
    left, top = max(0, min(left, right - _MIN_FRAME_PX)), max(0, min(top, bottom - _MIN_FRAME_PX))
    right, bottom = (
        min(picture.width, max(right, left + _MIN_FRAME_PX)),
        min(picture.height, max(bottom, top + _MIN_FRAME_PX)),
    )
    draw = ImageDraw.Draw(picture)
    for inset, color in ((0, _SHADOW), (1, _WHITE), (2, _WHITE), (3, _SHADOW)):
        corners = (left + inset, top + inset, right - 1 - inset, bottom - 1 - inset)
        if corners[0] <= corners[2] and corners[1] <= corners[3]:
            draw.rectangle(corners, outline=color)


class _Lines:
    """Draws lines across pixels; `axis` 0 has horizontal ones. Positions are in pixels of the source."""

    def __init__(self, drawn: Pixels, axis: int, scale: float, length_px: int) -> None:
        self._across: npt.NDArray[np.uint8] = drawn if axis == 0 else drawn.transpose(1, 0, 2)
        self._scale = scale
        self._length_px = length_px

    def positions(self, origin_px: int, step_px: int) -> range:
        """Return where lines are within the picture, at every `step_px` counted from the padded picture's corner."""
        first = -origin_px % step_px or step_px
        return range(first, self._length_px, step_px)

    def solid(
        self, position_px: int, thickness_px: int, color: tuple[int, int, int], *, end: int | None = None
    ) -> None:
        """Draw a coloured line with a dark one beside it, so that one of them is seen on any picture."""
        at = round(position_px * self._scale)
        first = max(0, at - thickness_px // 2)
        self._blend(slice(first, first + thickness_px), slice(0, end), color, 0.8)
        self._blend(slice(first + thickness_px, first + thickness_px + 1), slice(0, end), _SHADOW, 0.5)

    def dashed(self, position_px: int) -> None:
        """Draw a line of white and black dashes."""
        at = round(position_px * self._scale)
        for begin, color in ((0, _WHITE), (_DASH_PX, _SHADOW)):
            for offset in range(_DASH_PX):
                self._blend(slice(at, at + 1), slice(begin + offset, None, 2 * _DASH_PX), color, 0.55)

    def _blend(self, rows: slice, columns: slice, color: tuple[int, int, int], opacity: float) -> None:
        part = self._across[rows, columns]
        part[...] = (part * (1 - opacity) + np.array(color) * opacity).astype(np.uint8)
