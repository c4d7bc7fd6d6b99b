"""Results of a real server, for adapters to take."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pytest

from monopath import Client, ImageInput, RawImage, Ready, Result
from tests.support.processes import ServerProcess, serving

PIXELS = np.random.default_rng(102).integers(0, 256, (150, 220, 3), dtype=np.uint8)
IMAGES = [RawImage(PIXELS, "RGB8"), RawImage(PIXELS[:41, :97], "RGB8"), RawImage(PIXELS[:90, :64], "RGB8")]


@dataclass(frozen=True)
class Made:
    """What a stream gave for `IMAGES`, or for others."""

    ready: Ready
    results: list[Result[Any]]


Make: TypeAlias = Callable[..., Made]


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    """A server that runs as long as these tests."""
    with serving("--address", "127.0.0.1:0", "--cuda", "off", "--workers", "1") as process:
        yield process


@pytest.fixture(scope="session")
def client(server: ServerProcess) -> Iterator[Client]:
    """A client of it."""
    with Client(server.address) as one:
        yield one


@pytest.fixture(scope="session")
def make(client: Client) -> Make:
    """Stream images under a preset, in an element type."""

    def made(preset: str, data_type: Any = "float32", images: list[ImageInput] | None = None) -> Made:
        with client.deferred_cpu(preset=preset, data_type=data_type, order="as_sent") as stream:
            return Made(stream.ready, list(stream.map(IMAGES if images is None else images)))

    return made
