"""Case 9: an item that takes long while its client pings, and nothing else is on the connection."""

from __future__ import annotations

import threading
from typing import Any

import grpc
import pytest

from monopath_server import app
from monopath_server.engine import host
from monopath_server.engine.images import PlannedImage, decode_planned
from monopath_server.settings import Settings
from tests.support.server import quick_settings
from tests.support.stream import RawStream, encoded, make_config, make_item, photo, png, running_rig

__all__ = ["ALLOWED_PING_INTERVAL", "PING_INTERVAL_MS", "quiet_item"]

ALLOWED_PING_INTERVAL = "grpc.http2.min_ping_interval_without_data_ms"
PING_INTERVAL_MS = 10_000
"""Client: between two pings; as often as the server allows."""
PING_TIMEOUT_MS = 5_000


async def quiet_item(seconds: float, *, scale: float = 1.0, without: str = "") -> str:
    """Have an item take so long while its client pings, and return the stream's status.

    `scale` shortens the client's pings and what the server allows alike; `without` leaves an option of the server out.
    """
    client_options = [
        ("grpc.keepalive_time_ms", int(PING_INTERVAL_MS * scale)),
        ("grpc.http2.ping_timeout_ms", PING_TIMEOUT_MS),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    real_options = app._options

    def server_options(settings: Settings) -> list[tuple[str, int]]:
        return [
            # A little less than the client's interval: both have clocks of their own.
            (name, int(value * scale * 0.9) if name == ALLOWED_PING_INTERVAL and scale != 1.0 else value)
            for name, value in real_options(settings)
            if name != without
        ]

    is_over = threading.Event()

    def slow_decode(planned: PlannedImage, *arguments: Any) -> Any:
        is_over.wait(seconds)
        return decode_planned(planned, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "_options", server_options)
        patch.setattr(host, "decode_planned", slow_decode)
        async with (
            running_rig(quick_settings(worker_count=1)) as rig,
            grpc.aio.insecure_channel(rig.server.address, client_options) as channel,
        ):
            stream = RawStream(channel, "deferred_cpu")
            await stream.send(make_config(), make_item(1, encoded(png(photo(50, 40)))))
            await stream.read_until("plan")
            code = await stream.finish(grammar=False)
            is_over.set()
            assert code != "OK" or stream.outcomes[1].completion is not None, (
                f"Expected features, got {stream.outcomes[1]}"
            )
            return code
