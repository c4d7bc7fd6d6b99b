"""Features as a safetensors file."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from monopath import PathT, Result
from monopath.cli.faults import UserFault, needs_server

__all__ = ["FeaturesFile"]


class FeaturesFile:
    """Collects results in memory, and writes them at the end, all or nothing.

    Each image has the tensors `<id>.pixel_values` and, where it has a patch grid, `<id>.grid_thw` (int64 [3]); ids are
    places among the arguments.
    """

    def __init__(self, path: Path) -> None:
        """Raises UserFault where safetensors is not installed or the file cannot be written."""
        try:
            from safetensors.numpy import save_file
        except ModuleNotFoundError as error:
            raise needs_server("--out", error) from None
        if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
            raise UserFault(f"--out: cannot write {path}")
        self._save_file = save_file
        self._path = path
        self._tensors: dict[str, np.ndarray[Any, Any]] = {}
        self._labels: dict[int, str] = {}

    def add(self, image_id: int, label: str, result: Result[PathT]) -> None:
        """Take the features of an image that has some."""
        grid = result.plan.grid_thw
        self._tensors[f"{image_id}.pixel_values"] = np.ascontiguousarray(result.array)
        if grid is not None:
            self._tensors[f"{image_id}.grid_thw"] = np.array([grid.t, grid.h, grid.w], np.int64)
        self._labels[image_id] = label

    def write(self, metadata: Mapping[str, str]) -> None:
        """Write what was taken, with `metadata` and the images' labels as the file's. Raises UserFault."""
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            self._save_file(self._tensors, draft, metadata={**metadata, "labels": json.dumps(self._labels)})
            draft.replace(self._path)
        except Exception as error:
            raise UserFault(f"--out: cannot write {self._path}: {error}") from None
        finally:
            # After Ctrl-C too.
            with contextlib.suppress(OSError):
                draft.unlink()
