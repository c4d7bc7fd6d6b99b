"""Shared memory for scripted servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.segments import ServerMemory


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ServerMemory]:
    """Shared memory of a server, in a directory of the test's own."""
    with ServerMemory(tmp_path) as server_memory:
        yield server_memory
