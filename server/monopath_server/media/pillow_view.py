"""Looks at a Pillow image's own memory, without a copy, through the Arrow C data interface that Pillow exports."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["ArrowArray", "view_pixels"]

_RGBX_BYTES = 4


class ArrowArray(ctypes.Structure):
    """`struct ArrowArray` of the Arrow C data interface."""


ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]

_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _PixelMemory:
    """Holds the capsule, and with it the pixels, for as long as any view of them lives."""

    def __init__(self, capsule: object, address: int, shape: tuple[int, int, int]) -> None:
        self._capsule = capsule
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "typestr": "|u1",
            "shape": shape,
            "data": (address, True),
            "strides": None,
        }


def view_pixels(image: Image.Image) -> NDArray[np.uint8]:
    """Return the pixels of a loaded RGB or RGBA image as read-only uint8 [height, width, 4].

    Byte 3 of an RGB pixel is undefined. The view keeps the pixels alive. Only an image that Pillow had to store in more
    than one block is copied.

    Raises:
        ValueError: `image` is of another mode.
    """
    if image.mode not in ("RGB", "RGBA"):
        raise ValueError(f"Expected an image of mode RGB or RGBA, got {image.mode}")
    if image.readonly:
        # Before Pillow 13 the export of an image with borrowed memory kills the process (python-pillow/Pillow #9896).
        image = image.copy()
    width_px, height_px = image.size
    shape = (height_px, width_px, _RGBX_BYTES)
    try:
        _, capsule = image.__arrow_c_array__()
    except ValueError:
        packed = image.tobytes("raw", "RGBX" if image.mode == "RGB" else "RGBA")
        return np.frombuffer(packed, np.uint8).reshape(shape)
    array = ArrowArray.from_address(_get_pointer(capsule, b"arrow_array"))
    address = array.children[0].contents.buffers[1]
    return np.asarray(_PixelMemory(capsule, address, shape))
