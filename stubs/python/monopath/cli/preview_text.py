"""Words in a picture: fonts that come with Pillow, and lines that fit a width."""

from __future__ import annotations

import enum
import functools

from PIL import Image, ImageDraw, ImageFont

__all__ = ["TextSize", "draw_text", "line_height_px", "text_width_px", "wrapped"]

_INK = (28, 30, 33)


class TextSize(enum.IntEnum):
    """Sizes of letters, in pixels."""

    SMALL = 14
    NORMAL = 16
    TITLE = 20


@functools.cache
def _font(size: TextSize) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    try:
        return ImageFont.load_default(size)
    except (ImportError, OSError):
        # A Pillow without FreeType has one small font of fixed size.
        return ImageFont.load_default()


def line_height_px(size: TextSize) -> int:
    """Return the distance from one line to the next."""
    _, top_px, _, bottom_px = _font(size).getbbox("Ag")
    return int(bottom_px - top_px) + max(4, size // 3)


def text_width_px(text: str, size: TextSize) -> float:
    """Return how wide a line is."""
    return _font(size).getlength(_drawable(text, size))


def wrapped(text: str, size: TextSize, width_px: int) -> list[str]:
    """Break a text between words, and within those that are wider than a line, into lines that fit."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if text_width_px(longer, size) <= width_px:
            lines[-1] = longer
            continue
        if lines[-1]:
            lines.append("")
        for letter in word:
            if lines[-1] and text_width_px(lines[-1] + letter, size) > width_px:
                lines.append("")
            lines[-1] += letter
    return lines


def draw_text(
    canvas: Image.Image,
    left_px: float,
    top_px: float,
    text: str,
    size: TextSize,
    *,
    ink: tuple[int, int, int] = _INK,
    outline: tuple[int, int, int] | None = None,
) -> None:
    """Write one line; `outline` is a colour around each letter, for text upon a picture."""
    draw = ImageDraw.Draw(canvas)
    shown = _drawable(text, size)
    font = _font(size)
    if outline is not None and isinstance(font, ImageFont.FreeTypeFont):
        draw.text((left_px, top_px), shown, ink, font, stroke_width=1.5, stroke_fill=outline)
        return
    if outline is not None:
        for beside_px, below_px in ((-1, 0), (1, 0), (0, -1), (0, 1)):
            draw.text((left_px + beside_px, top_px + below_px), shown, outline, font)
    draw.text((left_px, top_px), shown, ink, font)


def _drawable(text: str, size: TextSize) -> str:
    """Return the text without what cannot be drawn: control characters, and all but Latin-1 where fonts are bitmaps."""
    visible = "".join(letter if letter.isprintable() else "?" for letter in text)
    if isinstance(_font(size), ImageFont.FreeTypeFont):
        return visible
    return visible.encode("latin-1", "replace").decode("latin-1")
