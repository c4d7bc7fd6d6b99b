"""Blocks below each other on one picture, in aligned columns, with a legend."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image, ImageDraw

from monopath.cli.preview_blocks import Block, Panel
from monopath.cli.preview_original import TRANSPARENT_COLOR
from monopath.cli.preview_picture import EDGE_COLOR, WINDOW_COLOR
from monopath.cli.preview_text import TextSize, draw_text, line_height_px, text_width_px, wrapped

__all__ = ["BLOCKS_A_PAGE", "box_px", "make_page"]

BLOCKS_A_PAGE = 8
"""Images on one picture; more of them take further ones."""

_MAX_HEIGHT_PX = 3900
_MAX_BOX_PX = 800
_MIN_COLUMN_PX = 440
_MARGIN_PX = 28
_GAP_PX = 28
_CAPTION_PX = 260
"""What a block takes besides its pictures, about."""
_PAPER = (250, 250, 248)
_RULE = (205, 208, 212)
_FAINT_INK = (96, 100, 106)
_SWATCH_PX = (34, 18)


def box_px(block_count: int) -> tuple[int, int]:
    """Return how large a picture may be drawn, (width, height), where so many blocks share a page."""
    height_px = _MAX_HEIGHT_PX // max(1, min(block_count, BLOCKS_A_PAGE)) - _CAPTION_PX
    return (_MAX_BOX_PX, min(_MAX_BOX_PX, height_px))


def make_page(blocks: Sequence[Block], footer: str) -> Image.Image:
    """Lay the blocks out. `footer` is one line about all of them."""
    widths_px = _column_widths_px(blocks)
    laid_out = [_LaidOut(block, widths_px) for block in blocks]
    width_px = sum(widths_px) + _GAP_PX * (len(widths_px) - 1) + 2 * _MARGIN_PX
    legend_lines = _legend_lines(width_px - 2 * _MARGIN_PX, _used_marks(blocks))
    legend_height_px = len(legend_lines) * (line_height_px(TextSize.NORMAL) + 8)
    footer_lines = wrapped(footer, TextSize.SMALL, width_px - 2 * _MARGIN_PX)
    height_px = (
        _MARGIN_PX
        + legend_height_px
        + sum(each.height_px for each in laid_out)
        + len(footer_lines) * line_height_px(TextSize.SMALL)
        + _MARGIN_PX
    )
    page = Image.new("RGB", (width_px, height_px), _PAPER)
    _draw_legend(page, legend_lines)
    top_px = _MARGIN_PX + legend_height_px
    for each in laid_out:
        each.draw(page, top_px)
        top_px += each.height_px
    for line in footer_lines:
        draw_text(page, _MARGIN_PX, top_px, line, TextSize.SMALL, ink=_FAINT_INK)
        top_px += line_height_px(TextSize.SMALL)
    return page


def _column_widths_px(blocks: Sequence[Block]) -> list[int]:
    """Return the width of each column: all blocks have the same, so that their pictures stand below each other."""
    column_count = max(len(block.panels) for block in blocks)
    return [
        max(
            _MIN_COLUMN_PX,
            *(block.panels[column].picture.width + 2 for block in blocks if column < len(block.panels)),
        )
        for column in range(column_count)
    ]


class _LaidOut:
    """A block with its lines broken to the widths of the columns."""

    def __init__(self, block: Block, widths_px: Sequence[int]) -> None:
        self._block = block
        self._widths_px = widths_px
        inner_px = sum(widths_px) + _GAP_PX * (len(widths_px) - 1)
        self._title_lines = wrapped(block.title, TextSize.TITLE, inner_px)
        self._headings = [
            wrapped(panel.title, TextSize.NORMAL, width_px)
            for panel, width_px in zip(block.panels, widths_px, strict=False)
        ]
        self._captions = [
            [part for line in panel.lines for part in wrapped(line, TextSize.NORMAL, width_px)]
            for panel, width_px in zip(block.panels, widths_px, strict=False)
        ]
        line_px = line_height_px(TextSize.NORMAL)
        self._title_px = len(self._title_lines) * line_height_px(TextSize.TITLE) + 10
        self._heading_px = max(map(len, self._headings)) * line_px + 4
        # A caption stands right below its own picture, not below the highest one.
        panels_px = max(
            panel.picture.height + 2 + 10 + len(caption) * line_px
            for panel, caption in zip(block.panels, self._captions, strict=True)
        )
        self.height_px = 16 + self._title_px + self._heading_px + panels_px + 24

    def draw(self, page: Image.Image, top_px: int) -> None:
        """Draw it, below a rule."""
        draw = ImageDraw.Draw(page)
        draw.line((_MARGIN_PX, top_px, page.width - _MARGIN_PX, top_px), _RULE, 2)
        top_px += 16
        for number, line in enumerate(self._title_lines):
            draw_text(page, _MARGIN_PX, top_px + number * line_height_px(TextSize.TITLE), line, TextSize.TITLE)
        top_px += self._title_px
        left_px = _MARGIN_PX
        for panel, width_px, heading, caption in zip(
            self._block.panels, self._widths_px, self._headings, self._captions, strict=False
        ):
            self._draw_panel(page, (left_px, top_px), panel, heading, caption)
            left_px += width_px + _GAP_PX

    def _draw_panel(
        self,
        page: Image.Image,
        corner_px: tuple[int, int],
        panel: Panel,
        heading: Sequence[str],
        caption: Sequence[str],
    ) -> None:
        left_px, top_px = corner_px
        line_px = line_height_px(TextSize.NORMAL)
        for number, line in enumerate(heading):
            draw_text(page, left_px, top_px + number * line_px, line, TextSize.NORMAL)
        top_px += self._heading_px
        right_px, bottom_px = left_px + panel.picture.width + 1, top_px + panel.picture.height + 1
        ImageDraw.Draw(page).rectangle((left_px, top_px, right_px, bottom_px), outline=_RULE)
        page.paste(panel.picture, (left_px + 1, top_px + 1))
        top_px = bottom_px + 10
        for number, line in enumerate(caption):
            draw_text(page, left_px, top_px + number * line_px, line, TextSize.NORMAL, ink=_FAINT_INK)


_LEGEND = (
    ("patch", "edges of patches: one row each"),
    ("window", "edges of merge windows: one token each"),
    ("tile", "edges of tiles: one row each"),
    ("token", "edges of the encoder's patches: one token each"),
    ("edge", "edge of the resized picture; what lies beyond is padding"),
    ("frame", "what the detail shows"),
    ("transparent", "not opaque in the file"),
)
_MARKS_OF_UNITS = {"window": ("patch", "window", "edge"), "tile": ("tile",), "patch": ("token",)}


def _used_marks(blocks: Sequence[Block]) -> frozenset[str]:
    """Return what is to be explained."""
    units = frozenset[str]().union(*(block.units for block in blocks))
    frame = ("frame",) if any(block.has_detail for block in blocks) else ()
    return frozenset(("transparent", *frame, *(mark for unit in units for mark in _MARKS_OF_UNITS[unit])))


def _legend_lines(width_px: int, used: frozenset[str]) -> list[list[tuple[str, str]]]:
    """Break the legend into lines that fit."""
    lines: list[list[tuple[str, str]]] = [[]]
    used_px = 0.0
    for kind, text in _LEGEND:
        if kind not in used:
            continue
        entry_px = _entry_width_px(text)
        if lines[-1] and used_px + entry_px > width_px:
            lines.append([])
            used_px = 0.0
        lines[-1].append((kind, text))
        used_px += entry_px
    return lines


def _entry_width_px(text: str) -> float:
    return _SWATCH_PX[0] + 8 + text_width_px(text, TextSize.NORMAL) + 30


def _draw_legend(page: Image.Image, lines: Sequence[Sequence[tuple[str, str]]]) -> None:
    top_px = _MARGIN_PX
    for line in lines:
        left_px = float(_MARGIN_PX)
        for kind, text in line:
            page.paste(_swatch(kind), (int(left_px), top_px))
            draw_text(page, left_px + _SWATCH_PX[0] + 8, top_px, text, TextSize.NORMAL)
            left_px += _entry_width_px(text)
        top_px += line_height_px(TextSize.NORMAL) + 8


def _swatch(kind: str) -> Image.Image:
    """Return a sample of a line, upon light and dark."""
    width_px, height_px = _SWATCH_PX
    sample = Image.new("RGB", _SWATCH_PX, (225, 225, 225))
    draw = ImageDraw.Draw(sample)
    draw.rectangle((width_px // 2, 0, width_px, height_px), fill=(60, 60, 60))
    middle_px = height_px // 2
    match kind:
        case "patch":
            for left_px in range(0, width_px, 6):
                draw.line((left_px, middle_px, left_px + 2, middle_px), (255, 255, 255))
                draw.line((left_px + 3, middle_px, left_px + 5, middle_px), (0, 0, 0))
        case "window" | "tile" | "token" | "edge":
            draw.line((0, middle_px, width_px, middle_px), EDGE_COLOR if kind == "edge" else WINDOW_COLOR, 2)
            draw.line((0, middle_px + 1, width_px, middle_px + 1), (0, 0, 0))
        case "frame":
            draw.rectangle((4, 2, width_px - 5, height_px - 3), outline=(0, 0, 0))
            draw.rectangle((5, 3, width_px - 6, height_px - 4), outline=(255, 255, 255), width=2)
            draw.rectangle((7, 5, width_px - 8, height_px - 6), outline=(0, 0, 0))
        case _:
            sample.paste(TRANSPARENT_COLOR, (0, 0, width_px, height_px))
    return sample
