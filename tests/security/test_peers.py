"""What one client may hold at the same time, and what tells clients apart."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from monopath_server.app import Server
from monopath_server.engine import host
from monopath_server.security.settings import SecuritySettings
from tests.stream.test_order import Gate
from tests.support.certificates import Authority, replace_file
from tests.support.footprint import settle
from tests.support.server import quick_settings
from tests.support.stream import RawStream, make_config, make_item, raw_pixels, running_rig

FIRST, SECOND = "first-0123456789abcdef", "second-0123456789abcdef"


class Caller:
    """Opens streams with metadata of its own."""

    def __init__(self, channel: grpc.aio.Channel, token: str | None = None) -> None:
        self._channel = channel
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)

    def begin(self) -> RawStream:
        return RawStream(self._channel, "deferred_cpu", metadata=self._metadata)

    async def open(self) -> RawStream:
        stream = self.begin()
        await stream.send(make_config())
        await stream.read_until("ready")
        return stream

    async def is_refused(self) -> bool:
        """Open one more stream, which has to be refused as one too many for this client."""
        stream = self.begin()
        with contextlib.suppress(grpc.RpcError, grpc.aio.BaseError):
            await stream.send(make_config())
        code = await stream.finish(half_close=False, grammar=False)
        assert stream.status is not None
        return (code, stream.reason) == ("RESOURCE_EXHAUSTED", "OVERLOADED") and (
            "streams of one client" in stream.status.message
        )


async def check_two_streams_each(one: Caller, other: Caller) -> None:
    """Under a limit of two, both have their own two, and nobody a third; who leaves makes room for itself."""
    held = [await one.open(), await one.open()]
    assert await one.is_refused()
    held += [await other.open(), await other.open()]
    assert await other.is_refused()
    assert await held.pop(0).finish() == "OK"
    held.append(await one.open())
    assert await one.is_refused()
    for stream in held:
        assert await stream.finish() == "OK"


@pytest.mark.asyncio
async def test_a_token_is_a_client(tmp_path: Path) -> None:
    file = replace_file(tmp_path / "tokens", f"{FIRST}\n{SECOND}\n".encode())
    security = SecuritySettings(token_file=file, max_peer_streams=2)
    async with running_rig(quick_settings(security=security)) as rig:
        await check_two_streams_each(Caller(rig.channel, FIRST), Caller(rig.channel, SECOND))
        assert (await settle(rig.server)).is_idle


@pytest.mark.asyncio
async def test_a_certificate_is_a_client_over_all_its_connections(tmp_path: Path) -> None:
    authority = Authority()
    certificate, private_key = authority.pair().write(tmp_path)
    security = SecuritySettings(certificate, private_key, authority.write(tmp_path), max_peer_streams=2)
    async with Server(quick_settings(security=security)) as server:
        for _ in range(2):
            async with (
                channel_of(server, authority, "one.example") as one,
                channel_of(server, authority, "other.example") as other,
            ):
                await check_two_streams_each(Caller(one), Caller(other))
        async with (
            channel_of(server, authority, "one.example") as one,
            channel_of(server, authority, "one.example") as renewed,
        ):
            held = [await Caller(one).open(), await Caller(renewed).open()]
            assert await Caller(one).is_refused()
            assert await Caller(renewed).is_refused()
            for stream in held:
                assert await stream.finish() == "OK"
        assert (await settle(server)).is_idle


@pytest.mark.asyncio
async def test_without_either_a_host_is_a_client_whatever_token_it_claims() -> None:
    async with (
        running_rig(quick_settings(security=SecuritySettings(max_peer_streams=2))) as rig,
        grpc.aio.insecure_channel(rig.server.address, [("grpc.use_local_subchannel_pool", 1)]) as second_connection,
    ):
        held = [await Caller(rig.channel, FIRST).open(), await Caller(second_connection, SECOND).open()]
        for caller in (Caller(rig.channel), Caller(second_connection), Caller(rig.channel, "third-0123456789abcdef")):
            assert await caller.is_refused()
        for stream in held:
            assert await stream.finish() == "OK"


@pytest.mark.asyncio
async def test_all_of_a_unix_socket_are_one_client(tmp_path: Path) -> None:
    settings = quick_settings(address=f"unix:{tmp_path / 'socket'}", security=SecuritySettings(max_peer_streams=1))
    async with (
        running_rig(settings) as rig,
        grpc.aio.insecure_channel(rig.server.address, [("grpc.use_local_subchannel_pool", 1)]) as second_connection,
    ):
        held = await Caller(rig.channel).open()
        assert await Caller(second_connection).is_refused()
        assert await held.finish() == "OK"


@pytest.mark.parametrize(
    ("limit", "most"), [("max_peer_items", 4), ("max_peer_bytes", 1_500_000), ("max_peer_pixels", 400_000)]
)
@pytest.mark.asyncio
async def test_a_client_that_holds_its_share_is_answered_overloaded_and_others_are_not(
    limit: str, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(set(range(1, 9)))
    monkeypatch.setattr(host, "decode_planned", gate)
    file = replace_file(tmp_path / "tokens", f"{FIRST}\n{SECOND}\n".encode())
    large, small = raw_pixels(bytes(400 * 250 * 3), 400, 250), raw_pixels(bytes(50 * 40 * 3), 50, 40)
    security = SecuritySettings(token_file=file, **{limit: most})  # type: ignore[arg-type]
    async with running_rig(quick_settings(security=security, worker_count=5)) as rig:
        one, other = Caller(rig.channel, FIRST), Caller(rig.channel, SECOND)
        holding = await one.open()
        for item_id in range(1, 2 if limit == "max_peer_bytes" else 5):
            await holding.send(make_item(item_id, large))
            await holding.read_until("plan", item_id=item_id)
        one_more = await one.open()
        await one_more.send(make_item(9, small))
        error = await one_more.read_until("error")
        assert one_more.outcomes[9].reason == "OVERLOADED"
        assert f"at most {most}" in error.message
        assert "of one client" in error.message
        assert error.HasField("retry_after")
        elsewhere = await other.open()
        await elsewhere.send(make_item(9, small))
        await elsewhere.read_until("completion")
        gate.open()
        for stream in (holding, one_more, elsewhere):
            assert await stream.finish() == "OK"
        assert all(outcome.completion is not None for outcome in holding.outcomes.values())
        assert (await settle(rig.server)).is_idle


@pytest.mark.asyncio
async def test_nothing_is_kept_of_clients_that_were_cut_off(tmp_path: Path) -> None:
    tokens = [f"token-number-{number:04}" for number in range(50)]
    file = replace_file(tmp_path / "tokens", "\n".join(tokens).encode())
    security = SecuritySettings(token_file=file, max_peer_streams=1)
    async with running_rig(quick_settings(security=security)) as rig:
        for token in tokens:
            stream = await Caller(rig.channel, token).open()
            stream.call.cancel()
        assert (await settle(rig.server)).is_idle


@asynccontextmanager
async def channel_of(server: Server, authority: Authority, name: str) -> AsyncIterator[grpc.aio.Channel]:
    """A connection of its own with a new certificate under a name."""
    pair = authority.pair(name)
    credentials = grpc.ssl_channel_credentials(authority.certificate, pair.private_key, pair.certificate)
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.secure_channel(server.address, credentials, options) as channel:
        yield channel
