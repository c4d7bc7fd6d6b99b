"""A burst is answered or told when to come again, and health stays on. `make soak` has the long form and the times."""

from __future__ import annotations

import pytest

from tests.load.burst import burst


@pytest.mark.asyncio
async def test_every_item_of_a_burst_is_answered_or_told_when_to_retry() -> None:
    outcome = await burst(40, 1500, 1000, "--max-process-pixels", "24000000", measure_idle=False)
    assert outcome.complaints == []
    assert outcome.ends["OVERLOADED"] > 0
