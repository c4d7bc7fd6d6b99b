"""A short soak: every item ends once, as it must, and nothing stays behind. `make soak` is the long form."""

from __future__ import annotations

import pytest

from tests.load.item_soak import soak_items

SHORT_RSS_GROWTH = 0.3
"""A young process still fills its pools; the long form holds memory to 5 %."""


@pytest.mark.asyncio
async def test_fifteen_hundred_items_over_sixteen_streams_end_once_each_and_leave_nothing() -> None:
    outcome = await soak_items(item_count=1500, stream_count=16, seed=7)
    assert outcome.losses == []
    assert outcome.leaks(SHORT_RSS_GROWTH) == []
    assert outcome.sent_count == 1500
    assert {"completed", "CANCELLED", "IMAGE_DAMAGED"} <= set(outcome.ends)
    assert outcome.given_up_stream_count > 0
