"""The pictures of one image, with their captions: the file, what each view saw, and a detail or the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from monopath import DataType, Orientation
from monopath.cli.preview_captions import original_lines, seen_lines
from monopath.cli.preview_difference import Difference, difference
from monopath.cli.preview_original import Original, read_original
from monopath.cli.preview_picture import Fit, Grid, draw_frame, draw_grid, fit, scaled
from monopath.cli.preview_rows import Pixels
from monopath.cli.preview_streams import Seen, Sight, Unseen
from monopath.cli.preview_text import TextSize, draw_text, line_height_px, text_width_px, wrapped
from monopath.cli.preview_views import View
from monopath.v1 import config_pb2

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
    difference: Difference | None = None
    """Between the two views, where both saw the image in one size."""
    has_detail: bool = False
    """Whether a part is framed, and magnified beside."""


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
        panels.append(_seen_panel(name, sight, original, box_px, detail))
        if detail is not None:
            panels.append(detail.panel(sight, box_px))
    if len(views) == 1:
        return Block(title, panels, has_detail=detail is not None and not detail.is_all)
    panel, found = _difference_panel(sights, box_px)
    return Block(title, [*panels, panel], found)


def _applies_orientation(views: Sequence[View], sights: Sequence[Sight]) -> bool:
    policies = {sight.processor.orientation_policy for sight in sights if isinstance(sight, Seen)}
    if policies:
        return policies == {config_pb2.ORIENTATION_POLICY_APPLY}
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


def _grid_of(seen: Seen) -> Grid:
    resized = seen.plan.resized_size
    return Grid(seen.processor.patch_size, seen.processor.merge_kernel_size, (resized.width_px, resized.height_px))


def _seen_panel(
    name: str, seen: Seen, original: Original | str, box_px: tuple[int, int], detail: _Detail | None
) -> Panel:
    height_px, width_px = seen.pixels.shape[:2]
    how = fit((width_px, height_px), box_px)
    grid = _grid_of(seen)
    drawn = scaled(seen.pixels, how)
    draw_grid(drawn, how, grid)
    picture = Image.fromarray(drawn)
    if detail is not None and not detail.is_all:
        draw_frame(picture, detail.frame(how))
    return Panel(name, seen_lines(seen, original, grid, how), picture)


@dataclass(frozen=True, slots=True)
class _Detail:
    """A part of the padded picture, of whole windows. Positions and sizes are in its pixels."""

    left_px: int
    top_px: int
    width_px: int
    height_px: int
    is_all: bool

    @classmethod
    def of(cls, seen: Seen, box_px: tuple[int, int]) -> _Detail:
        """Choose the corner with the padding, or the middle where there is none."""
        window_px = _grid_of(seen).window_px
        fewest, most = _DETAIL_WINDOWS
        wanted = min(most, max(fewest, min(*box_px, _MAX_DETAIL_PX) // (window_px * _DETAIL_SCALE)))
        height_px, width_px = seen.pixels.shape[:2]
        counts = (width_px // window_px, height_px // window_px)
        shown = (min(counts[0], wanted), min(counts[1], wanted))
        padding = seen.plan.padding
        first = (
            counts[0] - shown[0] if padding.right_px else (counts[0] - shown[0]) // 2,
            counts[1] - shown[1] if padding.bottom_px else (counts[1] - shown[1]) // 2,
        )
        return cls(
            first[0] * window_px, first[1] * window_px, shown[0] * window_px, shown[1] * window_px, shown == counts
        )

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

    def panel(self, seen: Seen, box_px: tuple[int, int]) -> Panel:
        """Magnify it, with the number of each row."""
        pixels = seen.pixels[self.top_px : self.top_px + self.height_px, self.left_px : self.left_px + self.width_px]
        how = fit((self.width_px, self.height_px), (min(box_px[0], _MAX_DETAIL_PX), min(box_px[1], _MAX_DETAIL_PX)))
        grid = _grid_of(seen)
        drawn = scaled(np.ascontiguousarray(pixels), how)
        draw_grid(drawn, how, grid, (self.left_px, self.top_px))
        picture = Image.fromarray(drawn)
        numbered = self._number(picture, seen, grid.patch_px, how)
        title = "all of it" if self.is_all else "detail (framed on its left)"
        lines = [f"{self.width_px}x{self.height_px} px from column {self.left_px}, line {self.top_px}"]
        if numbered:
            lines.append("numbers: the row of `pixel_values` that holds the patch")
        return Panel(title, [*lines, f"{how.words}; {grid.words(how.scale)}"], picture)

    def _number(self, picture: Image.Image, seen: Seen, patch_px: int, how: Fit) -> bool:
        """Write each patch's row into its corner, if there is room."""
        largest = text_width_px(str(seen.grid_thw.h * seen.grid_thw.w), TextSize.SMALL)
        if largest + 6 > patch_px * how.scale:
            return False
        for top_px in range(0, self.height_px, patch_px):
            for left_px in range(0, self.width_px, patch_px):
                row = (self.top_px + top_px) // patch_px * seen.grid_thw.w + (self.left_px + left_px) // patch_px
                left, top = left_px * how.scale + 4, top_px * how.scale + 3
                draw_text(picture, left, top, str(row), TextSize.SMALL, ink=(255, 255, 255), outline=(0, 0, 0))
        return True


def _difference_panel(sights: Sequence[Sight], box_px: tuple[int, int]) -> tuple[Panel, Difference | None]:
    seen = [sight.pixels for sight in sights if isinstance(sight, Seen)]
    if len(seen) < 2:
        return Panel("difference", [], _notice("There are no two pictures to compare.")), None
    first, second = seen
    if first.shape != second.shape:
        text = f"Not comparable pixel by pixel: {_size(first)} and {_size(second)}."
        return Panel("difference", [], _notice(text)), None
    found = difference(first, second)
    height_px, width_px = first.shape[:2]
    how = fit((width_px, height_px), box_px)
    lines = [found.words]
    if found.value_count:
        shown = "the largest of those that fall together" if how.scale < 1 else how.words
        brightness = "not amplified" if found.factor == 1 else f"drawn {found.factor} times as bright"
        lines.append(f"{brightness}; {shown}")
    return Panel("difference", lines, Image.fromarray(found.drawn(how))), found


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
