"""Results as DLPack, which torch, jax, cupy and others read without a copy, bfloat16 included. Needs none of them."""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from monopath._results import Result

__all__ = ["DlpackFeatures"]

_CAPSULE_NAME = b"dltensor"
_DATA_TYPE_OFFSET_BYTES = 20
"""In `DLTensor`: behind data (8), device (4 + 4) and ndim (4)."""
_BFLOAT_CODE = 4
"""`kDLBfloat`."""


class DlpackFeatures:
    """One image's features for `from_dlpack` of any library. They keep their memory until its array is gone.

    Raises the item's `ItemError` where it has none, and RuntimeError where they were released.
    """

    def __init__(self, result: Result[Any]) -> None:
        self._source: Any = result.torch() if _is_on_gpu(result) else result.array

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return type and number of the device that the features are on."""
        kind, number = self._source.__dlpack_device__()
        return int(kind), int(number)

    def __dlpack__(self, **arguments: Any) -> Any:
        """Return a capsule. Raises BufferError for a device or a copy that cannot be had."""
        if not isinstance(self._source, np.ndarray) or self._source.dtype != ml_dtypes.bfloat16:
            return self._source.__dlpack__(**arguments)
        # numpy knows no bfloat16: it hands over the bits, and the capsule says what they are. Without a version it is
        # the old layout, which every reader takes.
        arguments.pop("max_version", None)
        capsule = self._source.view(np.uint16).__dlpack__(**arguments)
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        address = pointer_of(capsule, _CAPSULE_NAME)
        ctypes.c_uint8.from_address(address + _DATA_TYPE_OFFSET_BYTES).value = _BFLOAT_CODE
        return capsule


def _is_on_gpu(result: Result[Any]) -> bool:
    result.raise_for_error()
    return result._tensor is not None
