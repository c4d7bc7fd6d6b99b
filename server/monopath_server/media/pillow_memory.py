"""Lets Pillow decode into memory that we own, through the Arrow C data interface that it imports.

A decoded image of 12 megapixels is 48 MB. Pillow takes fresh memory for it each time, and the first touch of that costs
as much as the decoding; memory that was used before costs nothing.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile

from monopath_server.media.pillow_view import ArrowArray

__all__ = ["PIXEL_BYTES", "load_into"]

PIXEL_BYTES = 4
"""Bytes of a pixel in Pillow's memory, in every mode of more than one channel."""


class _ArrowSchema(ctypes.Structure):
    """`struct ArrowSchema` of the Arrow C data interface."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_char_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("private_data", ctypes.c_void_p),
    )


_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

_exported: dict[int, tuple[object, ...]] = {}
"""What Pillow still refers to, until it lets its capsule go."""
_export_ids = itertools.count(1)
_exported_lock = threading.Lock()


def _forget_array(address: int) -> None:
    ArrowArray.from_address(address).release = None


def _forget_schema(address: int) -> None:
    _ArrowSchema.from_address(address).release = None


def _drop_exported(capsule: int) -> None:
    # Pillow keeps the capsule, not the structure in it: what belongs to it is dropped when the capsule is.
    array = ArrowArray.from_address(_capsule_pointer(capsule, b"arrow_array"))
    with _exported_lock:
        _exported.pop(array.private_data, None)


# Called from C at any time: they live as long as the module.
_release_array = _RELEASE(_forget_array)
_release_schema = _RELEASE(_forget_schema)
_destroy_capsule = _DESTRUCTOR(_drop_exported)


class _Exporter:
    """Memory as an Arrow array of bytes."""

    def __init__(self, memory: NDArray[np.uint8]) -> None:
        self._memory = memory

    def __arrow_c_array__(self, _requested_schema: object = None) -> tuple[Any, Any]:
        schema, array = _ArrowSchema(), ArrowArray()
        schema.format, schema.name = b"C", b""
        schema.release = ctypes.cast(_release_schema, ctypes.c_void_p).value
        buffers = (ctypes.c_void_p * 2)(None, self._memory.ctypes.data)
        array.length, array.n_buffers = self._memory.nbytes, len(buffers)
        array.buffers = ctypes.cast(buffers, ctypes.POINTER(ctypes.c_void_p))
        array.release = ctypes.cast(_release_array, ctypes.c_void_p).value
        array.private_data = export_id = next(_export_ids)
        with _exported_lock:
            _exported[export_id] = (schema, array, buffers, self._memory)
        return (
            _new_capsule(ctypes.addressof(schema), b"arrow_schema", None),
            _new_capsule(ctypes.addressof(array), b"arrow_array", ctypes.cast(_destroy_capsule, ctypes.c_void_p)),
        )


def load_into(image: Image.Image, memory: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
    """Decode an image that was opened and not loaded, of mode RGB or RGBA, into `memory`.

    Returns its pixels there, uint8 [height, width, 4], where the file's decoder wrote to it; None where it chose memory
    of its own (some formats do): the image is loaded all the same. Byte 3 of an RGB pixel is undefined. The image must
    not be used any more once the memory is given to somebody else.

    Args:
        image: The image.
        memory: uint8, contiguous, at least 4 bytes for each pixel.

    Raises:
        ValueError: the image is of another mode, or was loaded, or the memory is too small.
        Exception: whatever the file's decoder raises.
    """
    width_px, height_px = image.size
    size_bytes = width_px * height_px * PIXEL_BYTES
    if image.mode not in ("RGB", "RGBA") or not isinstance(image, ImageFile.ImageFile) or image._im is not None:
        raise ValueError(f"Expected an image of mode RGB or RGBA that is not loaded, got one of mode {image.mode}")
    if memory.nbytes < size_bytes:
        raise ValueError(f"Expected memory of {size_bytes} bytes, got {memory.nbytes}")
    pixels = memory[:size_bytes]
    core = Image.fromarrow(_Exporter(pixels), image.mode, image.size).im
    image.im = core
    image.load()
    return pixels.reshape(height_px, width_px, PIXEL_BYTES) if image.im is core else None
