"""Pings on a silent connection do not end it, because of one option. `make soak` has the form with real intervals."""

from __future__ import annotations

import pytest

from tests.load.quiet import ALLOWED_PING_INTERVAL, quiet_item


@pytest.mark.asyncio
async def test_a_client_that_pings_while_it_waits_is_not_cut_off() -> None:
    assert await quiet_item(seconds=2.0, scale=0.01) == "OK"


@pytest.mark.asyncio
async def test_without_the_option_the_same_client_is_cut_off_for_its_pings() -> None:
    assert await quiet_item(seconds=20.0, scale=0.01, without=ALLOWED_PING_INTERVAL) == "UNAVAILABLE"
