"""What a path returned for each image, as pixels again: un-patchified and, for float types, de-normalised."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import numpy as np

from monopath import (
    Client,
    DataType,
    ImagePlan,
    Item,
    ItemError,
    LocalFeatures,
    PathT,
    PreprocessingPath,
    ProtocolError,
    Ready,
    Result,
    ResultOrder,
    Stream,
)
from monopath._messages import InputT
from monopath._records import numpy_data_type
from monopath.cli.faults import UserFault
from monopath.cli.preview_parts import Picture, pictures
from monopath.cli.preview_rows import Denormalizer
from monopath.cli.preview_views import View
from monopath_server.processors.family import ProcessorConfig
from monopath_server.serving.configs import resolve_processor

if TYPE_CHECKING:
    from monopath.cli.local_features import FeatureMaker

__all__ = ["ImageFiles", "Seen", "Sight", "Unseen", "sights"]

_MAX_UNFINISHED_ITEMS = 4
"""Pictures are large, and drawing takes longer than their making."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What the model's encoder reads of one image."""

    pictures: tuple[Picture, ...]
    """All that the rows show: one picture, or tiles that are one, and the thumbnail."""
    plan: ImagePlan
    config: ProcessorConfig
    config_sha256: str
    features_sha256: str
    route: str
    """Where the pixels were resized and converted."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """Why an image has no features."""

    reason: str
    message: str


Sight = Seen | Unseen


class ImageFiles:
    """The images' bytes, each read when it is first asked for and kept until it is dropped: two streams may want it."""

    def __init__(self, files: Sequence[Path], labels: Sequence[str]) -> None:
        """`labels` are the files' names as they may be shown."""
        self._files = files
        self._labels = labels
        self._contents: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._files)

    def content(self, index: int) -> bytes:
        """Return an image's bytes. Raises UserFault where they cannot be read."""
        if index not in self._contents:
            try:
                self._contents[index] = self._files[index].read_bytes()
            except OSError as error:
                raise UserFault(f"Cannot read {self._labels[index]}: {error.strerror}") from None
        return self._contents[index]

    def drop(self, index: int) -> None:
        """An image is done with."""
        self._contents.pop(index, None)


def sights(
    client: Client, view: View, data_type: DataType, files: ImageFiles, on_ready: Callable[[Ready], None]
) -> Generator[Sight, None, None]:
    """Stream all images and yield what became of each, in their order. Close the iterator to end the stream early.

    Raises UserFault for a config or element type that cannot be shown, MonopathError for the stream.
    """
    viewing = _Viewing(files, _denormalizer(client, view, data_type), on_ready)
    arguments, order = view.choice.arguments, ResultOrder.AS_SENT
    count = _MAX_UNFINISHED_ITEMS
    match view.path:
        case PreprocessingPath.DEFERRED_CPU:
            with client.deferred_cpu(
                **arguments, data_type=data_type, order=order, max_unfinished_items=count
            ) as cpu_stream:
                yield from viewing.exchange(cpu_stream, viewing.items())
        case PreprocessingPath.DEFERRED_CUDA:
            with client.deferred_cuda(
                **arguments, data_type=data_type, order=order, max_unfinished_items=count
            ) as cuda_stream:
                yield from viewing.exchange(cuda_stream, viewing.items())
        case PreprocessingPath.LOCAL:
            # Needs what only a server needs; imported where it is known to be wanted.
            from monopath.cli.local_features import FeatureMaker

            with client.local(
                **arguments, data_type=data_type, order=order, max_unfinished_items=count
            ) as local_stream:
                maker = FeatureMaker(local_stream.ready, data_type)
                yield from viewing.exchange(local_stream, viewing.local_features(maker))
        case _:
            assert_never(view.path)


def _denormalizer(client: Client, view: View, data_type: DataType) -> Denormalizer | None:
    """Return what turns a float type back into pixels, by what a stream of UINT8 features says is to be made of them.

    None for UINT8, whose features are the pixels.
    """
    if data_type is DataType.UINT8:
        return None
    # The table is the config's, whatever the path; LOCAL needs nothing of a server to open.
    with client.local(**view.choice.arguments, data_type=DataType.UINT8) as stream:
        table = stream.ready.normalize_table
    if table is None:
        raise ProtocolError("Expected ready of UINT8 features with a normalize table, got none")
    try:
        return Denormalizer(table, numpy_data_type(data_type))
    except ValueError as error:
        raise UserFault(f"--dtype: {error}; uint8 always has the pixels themselves") from None


class _Viewing:
    """One stream: what it is sent, and its results as sights."""

    def __init__(self, files: ImageFiles, denormalizer: Denormalizer | None, on_ready: Callable[[Ready], None]) -> None:
        self._files = files
        self._denormalizer = denormalizer
        self._on_ready = on_ready
        self._sent: list[int] = []
        """The images that were sent, in their order: the stream's ids count from 1."""
        self._unsent: dict[int, Unseen] = {}
        """Those of which this side made no features, so that there was nothing to send on LOCAL."""

    def items(self) -> Iterator[Item]:
        for index in range(len(self._files)):
            item = Item(self._files.content(index))
            self._sent.append(index)
            yield item

    def local_features(self, maker: FeatureMaker) -> Iterator[LocalFeatures]:
        for index in range(len(self._files)):
            try:
                features = maker.features(self._files.content(index), "")
            except ItemError as error:
                self._unsent[index] = Unseen(str(error.reason), error.message)
                continue
            self._sent.append(index)
            yield features

    def exchange(self, stream: Stream[PathT, InputT], inputs: Iterable[InputT]) -> Iterator[Sight]:
        config = resolve_processor(stream.ready.processor, "processor", {}).config
        self._on_ready(stream.ready)
        following = 0
        for result in stream.map(inputs):
            index = self._sent[result.id - 1]
            yield from (self._unsent[skipped] for skipped in range(following, index))
            with result:
                sight = self._sight(result, config)
            yield sight
            following = index + 1
        yield from (self._unsent[skipped] for skipped in range(following, len(self._files)))

    def _sight(self, result: Result[PathT], config: ProcessorConfig) -> Sight:
        if result.error is not None:
            return Unseen(str(result.error.reason), result.error.message)
        rows, plan = result.array, result.plan
        try:
            pixel_rows = rows.view(np.uint8) if self._denormalizer is None else self._denormalizer.pixel_rows(rows)
            seen = tuple(pictures(pixel_rows, plan, config))
        except ValueError as error:
            # The server's fault: these are not the features of any picture.
            raise ProtocolError(str(error)) from None
        provenance = result.provenance
        return Seen(seen, plan, config, provenance.config_sha256.hex(), result.sha256(), provenance.route)
