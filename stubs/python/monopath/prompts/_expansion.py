"""From one placeholder for each image to as many as the image has tokens. No I/O, no tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["ExpandedTokenIds", "ImageRange", "check_placeholder_count", "replace_token_ids"]


@dataclass(frozen=True, slots=True)
class ImageRange:
    """Where an image's tokens stand among a prompt's: its placeholders alone, without what is around them."""

    offset: int
    """Place of the first, counted from 0."""
    length: int

    @property
    def last(self) -> int:
        """Place of the last one."""
        return self.offset + self.length - 1


@dataclass(frozen=True, slots=True)
class ExpandedTokenIds:
    """A prompt whose images have all their tokens."""

    token_ids: tuple[int, ...]
    ranges: tuple[ImageRange, ...]
    """One for each image, in the order of the prompt."""


def check_placeholder_count(placeholder_count: int, image_count: int) -> None:
    """Raise ValueError unless there is one placeholder for each image."""
    if placeholder_count != image_count:
        raise ValueError(
            f"Expected {image_count} image placeholder{'' if image_count == 1 else 's'}, got {placeholder_count}"
        )


def replace_token_ids(
    token_ids: Sequence[int],
    placeholder_id: int,
    counts: Sequence[int],
    prefixes: Sequence[Sequence[int]],
    suffixes: Sequence[Sequence[int]],
) -> ExpandedTokenIds:
    """Put `prefix`, `count` placeholders and `suffix` in the place of each placeholder.

    Raises ValueError unless there is one placeholder for each count.
    """
    places = [place for place, token_id in enumerate(token_ids) if token_id == placeholder_id]
    check_placeholder_count(len(places), len(counts))
    expanded: list[int] = []
    ranges: list[ImageRange] = []
    begin = 0
    for place, count, prefix, suffix in zip(places, counts, prefixes, suffixes, strict=True):
        expanded.extend(map(int, token_ids[begin:place]))
        expanded.extend(prefix)
        ranges.append(ImageRange(len(expanded), count))
        expanded.extend([placeholder_id] * count)
        expanded.extend(suffix)
        begin = place + 1
    expanded.extend(map(int, token_ids[begin:]))
    return ExpandedTokenIds(tuple(expanded), tuple(ranges))
