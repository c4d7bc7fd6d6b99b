"""Servers for all tests of the suite."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.servers import running_servers
from tests.conformance.suite import Servers


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """One without CUDA, and one that interprets it."""
    with running_servers("interpreter") as running:
        yield running
