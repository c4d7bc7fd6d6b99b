"""The pictures of one image, with their captions: the file, what each view saw, and a detail or the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from monopath import DataType, Orientation
from monopath.cli.preview_captions import original_lines, part_lines, seen_lines
from monopath.cli.preview_difference import Difference, difference
from monopath.cli.preview_original import Original, read_original
from monopath.cli.preview_parts import Part, Picture
from monopath.cli.preview_picture import Fit, Grid, draw_frame, draw_grid, fit, scaled
from monopath.cli.preview_rows import Pixels
from monopath.cli.preview_streams import Seen, Sight, Unseen
from monopath.cli.preview_text import TextSize, draw_text, line_height_px, text_width_px, wrapped
from monopath.cli.preview_views import View
from monopath_server.processors.types import OrientationPolicy

__all__ = ["Block", "Panel", "make_block"]

_DETAIL_WINDOWS = (2, 4)
"""Fewest and most windows on a side of the part that is magnified."""
_DETAIL_SCALE = 4
"""Row numbers have room from here on."""
_MAX_DETAIL_PX = 560
_NOTICE_WIDTH_PX = 440
_NOTICE_COLOR = (236, 238, 241)
_FAULT_COLOR = (255, 232, 229)
_FAULT_INK = (176, 0, 32)


@dataclass(frozen=True, slots=True, eq=False)
class Panel:
    """A picture, what it is, and what is to be said of it."""

    title: str
    lines: Sequence[str]
    picture: Image.Image


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """All that is shown of one image, side by side."""

    title: str
    panels: Sequence[Panel]
    differences: Sequence[Difference] = ()
    """Between the pictures of the two views, where both saw the image in one size."""
    has_detail: bool = False
    """Whether a part is framed, and magnified beside."""
    units: frozenset[str] = frozenset()
    """What the lines in its pictures are around: see `Grid.unit`."""


def make_block(
    title: str,
    content: bytes,
    views: Sequence[View],
    data_type: DataType,
    sights: Sequence[Sight],
    box_px: tuple[int, int],
) -> Block:
    """Draw one image: `sights` are what became of it, in the order of `views`. No picture is larger than `box_px`."""
    applies_orientation = _applies_orientation(views, sights)
    original = read_original(content, apply_orientation=applies_orientation)
    panels = [_original_panel(original, len(content), box_px, applies_orientation=applies_orientation)]
    detail = None
    for view, sight in zip(views, sights, strict=True):
        name = f"{view.name}, {view.path}, {data_type}"
        if isinstance(sight, Unseen):
            panels.append(Panel(name, [], _notice(f"{sight.reason}: {sight.message}", is_fault=True)))
            continue
        detail = _Detail.of(sight, box_px) if len(views) == 1 else None
        panels += _seen_panels(name, sight, original, box_px, detail)
        if detail is not None:
            panels.append(detail.panel(box_px))
    seen = [sight for sight in sights if isinstance(sight, Seen)]
    grids = [picture.part.grid for sight in seen for picture in sight.pictures]
    units = frozenset(grid.unit for grid in grids if grid is not None)
    if len(views) == 1:
        return Block(title, panels, has_detail=detail is not None and not detail.is_all, units=units)
    compared, found = _difference_panels(seen, box_px)
    return Block(title, [*panels, *compared], found, units=units)


def _applies_orientation(views: Sequence[View], sights: Sequence[Sight]) -> bool:
    policies = {sight.config.arithmetic.orientation for sight in sights if isinstance(sight, Seen)}
    if policies:
        return policies == {OrientationPolicy.APPLY}
    return all(view.choice.orientation is Orientation.APPLY for view in views)


def _original_panel(
    original: Original | str, size_bytes: int, box_px: tuple[int, int], *, applies_orientation: bool
) -> Panel:
    if isinstance(original, str):
        return Panel("the file", [], _notice(f"Pillow cannot decode it: {original}"))
    height_px, width_px = original.pixels.shape[:2]
    how = fit((width_px, height_px), box_px)
    lines = original_lines(original, size_bytes, how, applies_orientation=applies_orientation)
    return Panel("the file", lines, Image.fromarray(scaled(original.pixels, how)))


def _seen_panels(
    name: str, seen: Seen, original: Original | str, box_px: tuple[int, int], detail: _Detail | None
) -> list[Panel]:
    """Return a panel for each picture of the rows. What is said of all of them stands below the first."""
    panels = []
    for picture in seen.pictures:
        part = picture.part
        height_px, width_px = picture.pixels.shape[:2]
        how = fit((width_px, height_px), box_px)
        drawn = scaled(picture.pixels, how)
        lines = part_lines(picture, how)
        if part.grid is not None:
            draw_grid(drawn, how, part.grid)
        shown = Image.fromarray(drawn)
        if not part.name:
            lines = [*seen_lines(seen, original), *lines]
            if detail is not None and not detail.is_all:
                draw_frame(shown, detail.frame(how))
        if len(seen.pictures) > 1 and _number(shown, part, (0, 0), how):
            lines.append("numbers: the row of `pixel_values` that holds the tile")
        panels.append(Panel(f"{name}: {part.name}" if part.name else name, lines, shown))
    return panels


def _number(shown: Image.Image, part: Part, origin_px: tuple[int, int], how: Fit) -> bool:
    """Write the row of each patch or tile into its corner, if there is room.

    `shown` is a picture of the part that begins at `origin_px`, (left, top).
    """
    across_px, down_px = part.cell_px
    largest_px = text_width_px(str(part.first_row + part.row_count), TextSize.SMALL)
    if largest_px + 6 > across_px * how.scale:
        return False
    for top_px in range(0, how.source_px[1], down_px):
        for left_px in range(0, how.source_px[0], across_px):
            row = part.row_at((origin_px[1] + top_px) // down_px, (origin_px[0] + left_px) // across_px)
            left, top = left_px * how.scale + 4, top_px * how.scale + 3
            draw_text(shown, left, top, str(row), TextSize.SMALL, ink=(255, 255, 255), outline=(0, 0, 0))
    return True


@dataclass(frozen=True, slots=True, eq=False)
class _Detail:
    """A part of a picture in patches, of whole windows. Positions and sizes are in its pixels."""

    picture: Picture
    grid: Grid
    left_px: int
    top_px: int
    width_px: int
    height_px: int
    is_all: bool

    @classmethod
    def of(cls, seen: Seen, box_px: tuple[int, int]) -> _Detail | None:
        """Choose the corner with the padding, or the middle where there is none. None: rows are no patches."""
        picture, grid = seen.pictures[0], seen.pictures[0].part.grid
        if seen.plan.grid_thw is None or grid is None:
            return None
        window_px = grid.window_px
        fewest, most = _DETAIL_WINDOWS
        wanted = min(most, max(fewest, min(*box_px, _MAX_DETAIL_PX) // (window_px * _DETAIL_SCALE)))
        height_px, width_px = picture.pixels.shape[:2]
        counts = (width_px // window_px, height_px // window_px)
        shown = (min(counts[0], wanted), min(counts[1], wanted))
        padding = seen.plan.padding
        first = (
            counts[0] - shown[0] if padding.right_px else (counts[0] - shown[0]) // 2,
            counts[1] - shown[1] if padding.bottom_px else (counts[1] - shown[1]) // 2,
        )
        left_px, top_px, width_px, height_px = (count * window_px for count in (*first, *shown))
        return cls(picture, grid, left_px, top_px, width_px, height_px, shown == counts)

    def frame(self, how: Fit) -> tuple[int, int, int, int]:
        """Return where it lies in the drawn picture: left, top, right, bottom."""
        across, down = (drawn / source for drawn, source in zip(how.drawn_px, how.source_px, strict=True))
        right_px, bottom_px = self.left_px + self.width_px, self.top_px + self.height_px
        return (
            round(self.left_px * across),
            round(self.top_px * down),
            round(right_px * across),
            round(bottom_px * down),
        )

    def panel(self, box_px: tuple[int, int]) -> Panel:
        """Magnify it, with the number of each row."""
        bottom_px, right_px = self.top_px + self.height_px, self.left_px + self.width_px
        pixels = self.picture.pixels[self.top_px : bottom_px, self.left_px : right_px]
        how = fit((self.width_px, self.height_px), (min(box_px[0], _MAX_DETAIL_PX), min(box_px[1], _MAX_DETAIL_PX)))
        drawn = scaled(np.ascontiguousarray(pixels), how)
        draw_grid(drawn, how, self.grid, (self.left_px, self.top_px))
        shown = Image.fromarray(drawn)
        title = "all of it" if self.is_all else "detail (framed on its left)"
        lines = [f"{self.width_px}x{self.height_px} px from column {self.left_px}, line {self.top_px}"]
        if _number(shown, self.picture.part, (self.left_px, self.top_px), how):
            lines.append("numbers: the row of `pixel_values` that holds the patch")
        return Panel(title, [*lines, f"{how.words}; {self.grid.words(how.scale)}"], shown)


def _difference_panels(seen: Sequence[Seen], box_px: tuple[int, int]) -> tuple[list[Panel], list[Difference]]:
    """Compare the pictures of two views, each with its counterpart."""
    if len(seen) < 2:
        return [Panel("difference", [], _notice("There are no two pictures to compare."))], []
    first, second = (sight.pictures for sight in seen)
    if [picture.pixels.shape for picture in first] != [picture.pixels.shape for picture in second]:
        sizes = " and ".join(", ".join(_size(picture.pixels) for picture in pictures) for pictures in (first, second))
        return [Panel("difference", [], _notice(f"Not comparable pixel by pixel: {sizes}."))], []
    found = [difference(one.pixels, other.pixels) for one, other in zip(first, second, strict=True)]
    panels = []
    for picture, each in zip(first, found, strict=True):
        height_px, width_px = picture.pixels.shape[:2]
        how = fit((width_px, height_px), box_px)
        lines = [each.words]
        if each.value_count:
            shown = "the largest of those that fall together" if how.scale < 1 else how.words
            brightness = "not amplified" if each.factor == 1 else f"drawn {each.factor} times as bright"
            lines.append(f"{brightness}; {shown}")
        title = f"difference: {picture.part.name}" if picture.part.name else "difference"
        panels.append(Panel(title, lines, Image.fromarray(each.drawn(how))))
    return panels, found


def _size(pixels: Pixels) -> str:
    return f"{pixels.shape[1]}x{pixels.shape[0]} px"


def _notice(text: str, *, is_fault: bool = False) -> Image.Image:
    """Return words where a picture would be."""
    margin_px = 16
    lines = wrapped(text, TextSize.NORMAL, _NOTICE_WIDTH_PX - 2 * margin_px)
    height_px = len(lines) * line_height_px(TextSize.NORMAL) + 2 * margin_px
    picture = Image.new("RGB", (_NOTICE_WIDTH_PX, height_px), _FAULT_COLOR if is_fault else _NOTICE_COLOR)
    for number, line in enumerate(lines):
        top_px = margin_px + number * line_height_px(TextSize.NORMAL)
        if is_fault:
            draw_text(picture, margin_px, top_px, line, TextSize.NORMAL, ink=_FAULT_INK)
        else:
            draw_text(picture, margin_px, top_px, line, TextSize.NORMAL)
    return picture
