"""What `monopath preprocess` tells of one image, filled in as the server tells it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from monopath import ImagePlan, ItemError, PathT, PreprocessingPath, Result

__all__ = ["ImageReport", "ReportedError", "plan_fields"]


@dataclass(frozen=True, slots=True)
class ReportedError:
    """Why an image has no features."""

    reason: str
    code: str
    message: str

    @classmethod
    def of_item(cls, error: ItemError) -> ReportedError:
        """Take what the server said."""
        return cls(str(error.reason), error.code.name, error.message)

    def as_json(self) -> dict[str, str]:
        """Return the object under `error`."""
        return {"reason": self.reason, "code": self.code, "message": self.message}


@dataclass(slots=True)
class ImageReport:
    """One image: known things have values, unknown ones are None."""

    id: int
    """Place among the arguments, counted from 1."""
    file: Path
    path: PreprocessingPath
    started_ns: int = 0
    plan: ImagePlan | None = None
    content_sha256: str | None = None
    """SHA-256 of the file."""
    features_sha256: str | None = None
    cache: str | None = None
    """What the server's cache did."""
    plan_ms: float | None = None
    total_ms: float | None = None
    error: ReportedError | None = None

    @property
    def label(self) -> str:
        """The file's name as it was given; undecodable bytes of it are replaced."""
        return str(self.file).encode("utf-8", "replace").decode("utf-8")

    def start(self) -> None:
        """The image is taken up."""
        self.started_ns = time.perf_counter_ns()

    def take_plan(self, plan: ImagePlan) -> None:
        """The image's plan came."""
        self.plan, self.plan_ms = plan, self._elapsed_ms()

    def take_error(self, error: ReportedError) -> None:
        """The image came to its bad end."""
        self.error, self.total_ms = error, self._elapsed_ms()

    def take_result(self, result: Result[PathT]) -> None:
        """The image came to its end."""
        if result.error is not None:
            self.take_error(ReportedError.of_item(result.error))
            return
        self.total_ms = self._elapsed_ms()
        self.plan = result.plan
        self.features_sha256 = result.sha256()
        self.cache = result.cache
        self.content_sha256 = result.provenance.content_sha256.hex() or self.content_sha256

    def as_json(self) -> dict[str, object]:
        """Return the fields of `preprocess --json`."""
        plan, error = self.plan, self.error
        return {
            "id": self.id,
            "label": self.label,
            "path": str(self.path),
            **plan_fields(plan),
            "shape": None if plan is None else list(plan.shape),
            "data_type": None if plan is None else plan.data_type,
            "sha256": self.features_sha256,
            "content_sha256": self.content_sha256,
            "cache": self.cache,
            "plan_ms": self.plan_ms,
            "total_ms": self.total_ms,
            "error": None if error is None else error.as_json(),
        }

    def _elapsed_ms(self) -> float:
        return round((time.perf_counter_ns() - self.started_ns) / 1e6, 3)


def plan_fields(plan: ImagePlan | None) -> dict[str, object]:
    """Return the geometry of a plan, None in each field where there is no plan."""
    if plan is None:
        names = ("original_size", "resized_size", "padding", "crop", "grid_thw", "tile_grid", "token_count")
        return dict.fromkeys(names)
    crop, grid, tiles = plan.crop, plan.grid_thw, plan.tile_grid
    return {
        "original_size": [plan.original_size.width_px, plan.original_size.height_px],
        "resized_size": [plan.resized_size.width_px, plan.resized_size.height_px],
        "padding": [plan.padding.right_px, plan.padding.bottom_px],
        "crop": None if crop is None else [crop.left_px, crop.top_px, crop.width_px, crop.height_px],
        "grid_thw": None if grid is None else [grid.t, grid.h, grid.w],
        "tile_grid": None if tiles is None else [tiles.columns, tiles.rows, int(tiles.has_thumbnail)],
        "token_count": plan.token_count,
    }
