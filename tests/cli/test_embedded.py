"""The server inside the calling process."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from monopath import Client, ConnectionFailed
from monopath_server.app import Server
from monopath_server.embedded import embedded_server
from monopath_server.settings import DeviceMode, Settings

QUIET = Settings(cuda=DeviceMode.OFF)


def test_a_server_lives_as_long_as_its_context() -> None:
    with embedded_server(QUIET) as address, Client(address) as client:
        assert client.plan([(28, 28)], preset="kimi-k3").images[0].plan is not None
        socket = Path(address.removeprefix("unix:"))
        assert socket.parent.stat().st_mode & 0o077 == 0
    assert not socket.parent.exists()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("monopath")]
    with Client(address) as client, pytest.raises(ConnectionFailed):
        client.capabilities(timeout_seconds=10)


def test_two_servers_do_not_know_each_other() -> None:
    with embedded_server(QUIET) as first, embedded_server(QUIET) as second:
        assert first != second


@pytest.mark.parametrize("error", [ValueError("of the caller"), KeyboardInterrupt()])
def test_an_error_of_the_caller_stops_the_server_and_goes_on(error: BaseException) -> None:
    addresses: list[str] = []

    def use_it() -> None:
        with embedded_server(QUIET) as address:
            addresses.append(address)
            raise error

    with pytest.raises(type(error)):
        use_it()
    assert not Path(addresses[0].removeprefix("unix:")).exists()


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def refuse(_server: Server) -> None:
        raise RuntimeError("the arithmetic is wrong")

    monkeypatch.setattr(Server, "start", refuse)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(RuntimeError, match="the arithmetic is wrong"), embedded_server(QUIET):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_with_a_long_name_is_no_hindrance(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    with embedded_server(QUIET) as address, Client(address) as client:
        assert client.capabilities(timeout_seconds=10).server_version
    assert list(folder.iterdir()) == []
