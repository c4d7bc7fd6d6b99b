"""Streams images on one path, and holds what comes back against the reference's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from monopath import (
    Client,
    DataType,
    GridThw,
    Item,
    LocalFeatures,
    PathT,
    PreprocessingPath,
    Result,
    Size,
    Stream,
    TileGrid,
)
from monopath._messages import InputT
from monopath._records import numpy_data_type
from monopath.cli.faults import needs_server
from monopath.cli.verify_difference import Difference, byte_difference, geometry_difference
from monopath.cli.verify_images import Subject
from monopath.cli.verify_runs import Run

try:
    from monopath_server.reference import ReferenceFeatures
    from monopath_server.verification import Answer, Refusal, element_table, elements_of
except ModuleNotFoundError as error:
    raise needs_server("`monopath verify`", error) from None

__all__ = ["RunReport", "verify_run"]


@dataclass(slots=True)
class RunReport:
    """What one stream came to."""

    run: Run
    config_sha256: str = ""
    row_count: int = 0
    """Rows of features that were compared."""
    size_bytes: int = 0
    """Bytes that were compared."""
    refused_count: int = 0
    """Images that the path refused, as it must."""
    differences: list[Difference] = field(default_factory=list)

    @property
    def differing_bytes(self) -> int:
        """Bytes without an equal counterpart."""
        return sum(difference.byte_count for difference in self.differences)


def verify_run(client: Client, run: Run, answers: Mapping[int, Answer], on_result: Callable[[], None]) -> RunReport:
    """Stream the run's images and compare each. `answers` are the reference's, by the images' indices.

    Raises MonopathError where the stream is refused or lost.
    """
    return _Verification(run, answers, on_result).run_on(client)


class _Verification:
    def __init__(self, run: Run, answers: Mapping[int, Answer], on_result: Callable[[], None]) -> None:
        self._run = run
        self._answers = answers
        self._on_result = on_result
        self._report = RunReport(run)
        self._reference = run.setting.config.reference(run.setting.kernel)
        self._sent: list[Subject] = []
        """What was sent, in its order: the stream's ids count from 1."""

    def run_on(self, client: Client) -> RunReport:
        setting = self._run.setting
        arguments, data_type = setting.config.arguments(setting.kernel), setting.data_type
        # Paths share the server's cache: with it one of them would answer for the others.
        match self._run.path:
            case PreprocessingPath.DEFERRED_CPU:
                with client.deferred_cpu(**arguments, data_type=data_type, bypass_cache=True) as cpu_stream:
                    self._exchange(cpu_stream, self._items())
            case PreprocessingPath.DEFERRED_CUDA:
                with client.deferred_cuda(**arguments, data_type=data_type, bypass_cache=True) as cuda_stream:
                    self._exchange(cuda_stream, self._items())
            case PreprocessingPath.LOCAL:
                with client.local(**arguments, data_type=data_type) as local_stream:
                    self._exchange(local_stream, self._finished_features())
            case _:
                assert_never(self._run.path)
        return self._report

    def _exchange(self, stream: Stream[PathT, InputT], inputs: Iterable[InputT]) -> None:
        self._report.config_sha256 = stream.ready.config_sha256.hex()
        for result in stream.map(inputs):
            subject = self._sent[result.id - 1]
            difference = self._difference(subject.name, self._answers[subject.index], result)
            if difference is not None:
                self._report.differences.append(difference)
            self._on_result()

    def _items(self) -> Iterator[Item]:
        for subject in self._run.subjects:
            self._sent.append(subject)
            yield subject.item()

    def _finished_features(self) -> Iterator[LocalFeatures]:
        """Yield the reference's features: as pixel values for UINT8, else as float32, which the server converts."""
        sent_type = DataType.UINT8 if self._run.setting.data_type is DataType.UINT8 else DataType.FLOAT32
        for subject in self._run.subjects:
            answer = self._answers[subject.index]
            if isinstance(answer, Refusal):
                # There is nothing to send, so nothing that could differ.
                self._report.refused_count += 1
                self._on_result()
                continue
            self._sent.append(subject)
            yield LocalFeatures(
                self._elements(answer, sent_type).view(numpy_data_type(sent_type)),
                original_size=Size(*answer.original_size),
                grid_thw=GridThw(*answer.grid_thw) if any(answer.grid_thw) else None,
                tile_grid=self._tile_grid(answer),
                token_count=answer.token_count,
            )

    @staticmethod
    def _tile_grid(answer: ReferenceFeatures) -> TileGrid | None:
        if answer.tile_grid is None:
            return None
        columns, rows, thumbnail_count = answer.tile_grid
        return TileGrid(columns, rows, thumbnail_count == 1, answer.pixel_values.shape[-1])

    def _elements(self, answer: ReferenceFeatures, data_type: DataType) -> NDArray[Any]:
        return elements_of(answer.pixel_values, element_table(self._reference, data_type.name))

    def _difference(self, name: str, answer: Answer, result: Result[PathT]) -> Difference | None:
        if isinstance(answer, Refusal):
            if result.error is not None:
                self._report.refused_count += 1
                return None
            byte_count = result.array.nbytes
            return Difference(name, "not refused", f"a refusal ({answer.cause})", f"{byte_count} bytes", byte_count)
        elements = self._elements(answer, self._run.setting.data_type)
        if result.error is not None:
            found = f"{result.error.reason}: {result.error.message}"
            return Difference(name, "refused", f"{elements.nbytes} bytes", found, elements.nbytes)
        self._report.row_count += len(elements)
        self._report.size_bytes += elements.nbytes
        geometry: dict[str, tuple[int, ...]] = {
            "original_size": answer.original_size,
            "resized_size": answer.resized_size,
            "padding": answer.padding,
            "crop": answer.crop or (),
            "grid_thw": answer.grid_thw if any(answer.grid_thw) else (),
            "tile_grid": answer.tile_grid or (),
            "token_count": (answer.token_count,),
            "shape": elements.shape,
            "size_bytes": (elements.nbytes,),
        }
        found_array = np.ascontiguousarray(result.array)
        return geometry_difference(name, geometry, result.plan, elements.nbytes) or byte_difference(
            name, elements, found_array
        )
