"""Pieces of canonical forms that families share."""

from __future__ import annotations

import struct

from monopath_server.processors.ranges import ChannelValues
from monopath_server.processors.types import Background, BackgroundPattern

__all__ = ["background_form", "channel_form"]


def channel_form(values: ChannelValues) -> list[str]:
    """The 64 bits of each value, in hexadecimal."""
    # Adding 0.0 turns -0.0 into 0.0: the two give the same pixels.
    return [struct.pack(">d", float(value) + 0.0).hex() for value in values]


def background_form(background: Background | None) -> dict[str, str | int] | None:
    """Chessboard fields enter for a chessboard only, so that two configs of one meaning have one digest."""
    if background is None:
        return None
    form: dict[str, str | int] = {"pattern": background.pattern.value}
    if background.pattern is BackgroundPattern.CHESSBOARD:
        form["square_size"] = background.chessboard_square_size
        form["square_on_top_left"] = int(background.chessboard_square_on_top_left)
        form["white_value"] = background.chessboard_white_value
        form["gray_value"] = background.chessboard_gray_value
    return form
