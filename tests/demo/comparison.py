"""Streams pictures on one path, and holds what comes back against the independent reference."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from monopath import (
    Client,
    DataType,
    ImageInput,
    ImagePlan,
    Item,
    ItemError,
    ItemTimings,
    LocalFeatures,
    PathT,
    PreprocessingPath,
    RawImage,
    Result,
    Stream,
    StreamArguments,
)
from monopath.cli.local_features import FeatureMaker
from monopath_server.reference import RawImage as ReferenceRawImage
from monopath_server.reference import reference_features
from tests.demo.checkpoints import reference_config
from tests.demo.pictures import Picture

__all__ = ["Outcome", "Run", "outcomes"]


@dataclass(frozen=True, slots=True)
class Run:
    """One stream of the demo."""

    path: PreprocessingPath
    preset: str
    data_type: DataType


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one picture."""

    picture: Picture
    plan: ImagePlan | None = None
    sha256: str = ""
    timings: ItemTimings | None = None
    error: ItemError | None = None
    equals_reference: bool = False

    @property
    def as_it_must(self) -> bool:
        """A good picture has the reference's bytes, a damaged one an error."""
        return self.error is not None if self.picture.damaged else self.equals_reference


def outcomes(client: Client, run: Run, pictures: list[Picture]) -> Iterator[Outcome]:
    """Stream all pictures and yield what became of each, in their order. Raises what opening the stream raises."""
    # Without the cache, which the paths share: every run has to make its own.
    asked = StreamArguments(preset=run.preset, data_type=run.data_type, order="as_sent", bypass_cache=True)
    match run.path:
        case PreprocessingPath.DEFERRED_CPU:
            with client.deferred_cpu(**asked) as cpu_stream:
                yield from _deferred(cpu_stream, run, pictures)
        case PreprocessingPath.DEFERRED_CUDA:
            with client.deferred_cuda(**asked) as cuda_stream:
                yield from _deferred(cuda_stream, run, pictures)
        case PreprocessingPath.LOCAL:
            yield from _local(client, run, pictures)


def _deferred(stream: Stream[PathT, ImageInput], run: Run, pictures: list[Picture]) -> Iterator[Outcome]:
    items = (Item(picture.image, label=picture.name) for picture in pictures)
    for picture, result in zip(pictures, stream.map(items), strict=True):
        yield _outcome(picture, result, run)


def _local(client: Client, run: Run, pictures: list[Picture]) -> Iterator[Outcome]:
    """Finish float32 features here; the server checks them and converts them to the run's element type."""
    with client.local(preset=run.preset, data_type=run.data_type, order="as_sent") as stream:
        made_here = DataType.UINT8 if run.data_type is DataType.UINT8 else DataType.FLOAT32
        maker = FeatureMaker(stream.ready, made_here)
        finished: dict[str, LocalFeatures] = {}
        errors: dict[str, ItemError] = {}
        for picture in pictures:
            try:
                finished[picture.name] = maker.features(picture.image, picture.name)
            except ItemError as error:
                errors[picture.name] = error
        results = {result.label: result for result in stream.map(finished.values())}
    for picture in pictures:
        if picture.name in errors:
            yield Outcome(picture, error=errors[picture.name])
        else:
            yield _outcome(picture, results[picture.name], run)


def _outcome(picture: Picture, result: Result[PathT], run: Run) -> Outcome:
    if result.error is not None:
        return Outcome(picture, error=result.error)
    expected = reference_features(_reference_source(picture.image), reference_config(run.preset), run.data_type.upper())
    plan = result.plan
    grid = (0, 0, 0) if plan.grid_thw is None else (plan.grid_thw.t, plan.grid_thw.h, plan.grid_thw.w)
    sha256 = result.sha256()
    return Outcome(
        picture,
        plan=plan,
        sha256=sha256,
        timings=result.timings,
        equals_reference=(grid, plan.token_count, plan.shape, sha256)
        == (
            expected.grid_thw,
            expected.token_count,
            expected.pixel_values.shape,
            hashlib.sha256(expected.pixel_values.tobytes()).hexdigest(),
        ),
    )


def _reference_source(image: bytes | RawImage) -> bytes | ReferenceRawImage:
    if isinstance(image, bytes):
        return image
    height_px, width_px = image.pixels.shape[:2]
    # The words are the same; an enum member of the client's is not one of the reference's literals to a type checker.
    return ReferenceRawImage(width_px, height_px, cast("Any", str(image.format)), image.pixels.tobytes())
