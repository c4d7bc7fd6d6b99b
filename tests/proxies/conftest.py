"""Every test of a proxy is run with each; one that is not installed is skipped, and none at all is a failure."""

from __future__ import annotations

import pytest

from tests.proxies.proxies import PROXIES, ProxyKind


@pytest.fixture(params=PROXIES, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> ProxyKind:
    """Each proxy that is installed."""
    found: ProxyKind = request.param
    if found.missing:
        pytest.skip(found.missing)
    return found
