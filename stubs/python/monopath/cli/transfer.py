"""Image files through one stream, and what came of each of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, assert_never

from monopath import (
    Client,
    DataType,
    Item,
    ItemError,
    LocalFeatures,
    PathT,
    PlanEvent,
    PreprocessingPath,
    Ready,
    Result,
    Stream,
    Summary,
    Transport,
)
from monopath._messages import InputT
from monopath.cli.faults import UserFault
from monopath.cli.options import ProcessorChoice
from monopath.cli.reports import ImageReport, ReportedError

if TYPE_CHECKING:
    from monopath.cli.local_features import FeatureMaker

__all__ = ["OnEnd", "Transfer"]

# The contract's limit; a label only comes back, and results are told apart by their ids.
_MAX_LABEL_BYTES = 1024


class OnEnd(Protocol):
    """Is told each report when it is complete, and its result where it has features."""

    def __call__(self, report: ImageReport, result: Result[PathT] | None) -> None: ...


class Transfer:
    """Sends images on one path and fills in their reports."""

    def __init__(self, reports: list[ImageReport], on_ready: Callable[[Ready], None], on_end: OnEnd) -> None:
        self._reports = reports
        self._on_ready = on_ready
        self._on_end = on_end
        self._sent: list[ImageReport] = []
        """What was sent, in its order: the stream's ids count from 1."""

    def run(
        self,
        client: Client,
        path: PreprocessingPath,
        choice: ProcessorChoice,
        data_type: DataType,
        transport: Transport,
    ) -> Summary | None:
        """Send all images, wait for their ends, and return what the server says it came to.

        Raises UserFault for files, MonopathError for the stream.
        """
        match path:
            case PreprocessingPath.DEFERRED_CPU:
                with client.deferred_cpu(**choice.arguments, data_type=data_type, transport=transport) as cpu_stream:
                    self._exchange(cpu_stream, self._files())
                return cpu_stream.summary
            case PreprocessingPath.DEFERRED_CUDA:
                with client.deferred_cuda(**choice.arguments, data_type=data_type, transport=transport) as cuda_stream:
                    self._exchange(cuda_stream, self._files())
                return cuda_stream.summary
            case PreprocessingPath.LOCAL:
                # Needs what only a server needs; imported where it is known to be wanted.
                from monopath.cli.local_features import FeatureMaker

                with client.local(**choice.arguments, data_type=data_type, transport=transport) as local_stream:
                    maker = FeatureMaker(local_stream.ready, data_type)
                    self._exchange(local_stream, self._local_features(maker))
                return local_stream.summary
            case _:
                assert_never(path)

    def _exchange(self, stream: Stream[PathT, InputT], inputs: Iterable[InputT]) -> None:
        self._on_ready(stream.ready)
        for result in stream.map(inputs, on_plan=self._take_plan):
            report = self._sent[result.id - 1]
            report.take_result(result)
            self._on_end(report, result if result.ok else None)
            # Its memory may be the server's, who wants it for the next one.
            del result

    def _take_plan(self, event: PlanEvent) -> None:
        self._sent[event.id - 1].take_plan(event.plan)

    def _files(self) -> Iterator[Item]:
        for report in self._reports:
            data = _read(report)
            self._sent.append(report)
            yield Item(data, label=_wire_label(report))

    def _local_features(self, maker: FeatureMaker) -> Iterator[LocalFeatures]:
        for report in self._reports:
            data = _read(report)
            try:
                features = maker.features(data, _wire_label(report))
            except ItemError as error:
                report.take_error(ReportedError.of_item(error))
                self._on_end(report, None)
                continue
            self._sent.append(report)
            yield features


def _read(report: ImageReport) -> bytes:
    report.start()
    try:
        data = report.file.read_bytes()
    except OSError as error:
        raise UserFault(f"Cannot read {report.label}: {error.strerror}") from None
    report.content_sha256 = hashlib.sha256(data).hexdigest()
    return data


def _wire_label(report: ImageReport) -> str:
    return report.label.encode()[-_MAX_LABEL_BYTES:].decode("utf-8", "ignore")
