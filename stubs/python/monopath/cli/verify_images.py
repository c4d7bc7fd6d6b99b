"""The images that `monopath verify` streams: files, or the built-in set."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from monopath import Item, PixelFormat, RawImage
from monopath.cli.faults import UserFault, needs_server

try:
    from monopath_server.reference import RawImage as ReferenceRawImage
    from monopath_server.reference import generated_images
    from monopath_server.reference.features import RawPixelFormat
    from monopath_server.reference.generated import generated_pixels
except ModuleNotFoundError as error:
    raise needs_server("`monopath verify`", error) from None

__all__ = ["Subject", "evenly_spread", "file_subjects", "generated_subjects"]

_EXACT_SIZES_PX = ((2, 1), (14, 14), (15, 14), (28, 28), (28, 29), (42, 84), (57, 43), (20, 61), (5, 77), (83, 11))
"""(width, height) at and just beyond whole patches and tokens, besides those of the reference's own set."""
_CHANNEL_COUNTS: dict[RawPixelFormat, int] = {"GRAY8": 1, "GRAY_ALPHA8": 2, "RGB8": 3, "RGBA8": 4}


@dataclass(frozen=True, slots=True)
class Subject:
    """One image to be verified."""

    index: int
    """Place in the set; two files may have one name."""
    name: str
    kind: str
    """What the image has in common with others that differ from it in size alone."""
    source: bytes | ReferenceRawImage
    size_px: tuple[int, int] | None = None
    """(width, height). Known of generated images only: a file is not opened before its turn."""

    def item(self) -> Item:
        """Return the image as the client sends it."""
        source = self.source
        if isinstance(source, bytes):
            return Item(source)
        channel_count = _CHANNEL_COUNTS[source.pixel_format]
        pixels = np.frombuffer(source.data, np.uint8).reshape(source.height_px, source.width_px, channel_count)
        return Item(RawImage(pixels, PixelFormat(source.pixel_format)))


@functools.cache
def generated_subjects() -> tuple[Subject, ...]:
    """Return the built-in set: every mode, container and raw format, tiny to large."""
    named = [(image.name, image.source) for image in generated_images()]
    for pixel_format, channel_count in _CHANNEL_COUNTS.items():
        kind = f"raw-{pixel_format.lower().replace('_', '-')}"
        for width_px, height_px in _EXACT_SIZES_PX:
            data = generated_pixels(width_px, height_px, channel_count).tobytes()
            raw = ReferenceRawImage(width_px, height_px, pixel_format, data)
            named.append((f"{kind}-{width_px}x{height_px}", raw))
    return tuple(_generated(index, name, source) for index, (name, source) in enumerate(named))


def _generated(index: int, name: str, source: bytes | ReferenceRawImage) -> Subject:
    """Take a name such as `png-rgba-60x150` apart."""
    kind, _, size = name.rpartition("-")
    width_px, _, height_px = size.partition("x")
    return Subject(index, name, kind, source, (int(width_px), int(height_px)))


def file_subjects(files: Sequence[Path]) -> list[Subject]:
    """Read image files. Raises UserFault that names every one that cannot be read."""
    subjects: list[Subject] = []
    faults: list[str] = []
    for index, file in enumerate(files):
        name = str(file).encode("utf-8", "replace").decode("utf-8")
        try:
            subjects.append(Subject(index, name, name, file.read_bytes()))
        except OSError as error:
            faults.append(f"Cannot read {name}: {(error.strerror or str(error)).lower()}")
        except ValueError:
            faults.append(f"Cannot read {name}: it is no file name")
    if faults:
        raise UserFault("\n".join(faults))
    return subjects


def evenly_spread(subjects: Sequence[Subject], limit: int | None) -> Sequence[Subject]:
    """Return at most `limit` of the images, evenly spread over the set, so that few images still are of many kinds."""
    if limit is None or limit >= len(subjects):
        return subjects
    return [subjects[number * len(subjects) // limit] for number in range(limit)]
