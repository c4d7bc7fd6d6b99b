"""SIGTERM to a real server loses nothing. `make soak` tries twenty times, and looks at the time it takes."""

from __future__ import annotations

import pytest

from tests.load.stopping import stop_under_load


@pytest.mark.parametrize("attempt", [1, 2])
@pytest.mark.asyncio
async def test_a_signal_loses_no_accepted_item_and_ends_everybody_as_the_contract_says(attempt: int) -> None:
    trial = await stop_under_load()
    assert trial.complaints == [], f"attempt {attempt}"
