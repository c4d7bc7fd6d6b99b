"""What the reference says of many images: computed in processes of its own, then turned into any element type.

The processes keep the reference, which is plain Python, from holding up a server in the caller's process.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import warnings
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from monopath_server.reference import AnyReference, RawImage, ReferenceFeatures, reference_features
from monopath_server.reference.features import reference_elements

__all__ = ["Answer", "ReferencePool", "Refusal", "element_table", "elements_of", "reference_answer"]

_MAX_PROCESSES = 8
_VALUE_COUNT = 256


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reference has no features for an image."""

    cause: str
    """Why not, in words."""


Answer = ReferenceFeatures | Refusal


def reference_answer(source: bytes | RawImage, config: AnyReference) -> Answer:
    """Return the reference's features in UINT8, or why it has none."""
    try:
        return reference_features(source, config, "UINT8")
    except ValueError as error:
        return Refusal(str(error))


def _start_process(max_image_pixels: int) -> None:
    # Ctrl-C is for the caller, who then stops these processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")
    # Pillow refuses what has more than twice this many.
    Image.MAX_IMAGE_PIXELS = (max_image_pixels + 1) // 2


class ReferencePool:
    """Processes that compute references. Leaving the context drops what has not been computed."""

    def __init__(self, max_image_pixels: int) -> None:
        """Refuse images of more than `max_image_pixels`, as the server that is verified does."""
        self._executor = ProcessPoolExecutor(
            max_workers=min(_MAX_PROCESSES, len(os.sched_getaffinity(0))),
            # The caller has threads, which a forked process would miss.
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_process,
            initargs=(max_image_pixels,),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._executor.shutdown(cancel_futures=True)

    def submit(self, source: bytes | RawImage, config: AnyReference) -> Future[Answer]:
        """Begin to compute `reference_answer`."""
        return self._executor.submit(reference_answer, source, config)


@functools.lru_cache(maxsize=64)
def element_table(config: AnyReference, element_type: str) -> NDArray[Any]:
    """Return the raw bits of each channel's element of each pixel value, [3, 256]: what the reference makes of them."""
    gray_rgb = np.repeat(np.arange(_VALUE_COUNT, dtype=np.uint8)[:, None], 3, axis=1)
    return np.ascontiguousarray(reference_elements(gray_rgb, config, element_type).T)


def elements_of(pixel_values: NDArray[np.uint8], table: NDArray[Any]) -> NDArray[Any]:
    """Return features in UINT8, [rows, 3, ...], as raw bits of the table's element type, in C order."""
    elements = np.empty(pixel_values.shape, table.dtype)
    for channel in range(3):
        elements[:, channel] = table[channel][pixel_values[:, channel]]
    return elements
