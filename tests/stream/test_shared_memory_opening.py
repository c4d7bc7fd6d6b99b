"""Openings over shared memory that are refused, each with a reason and a text that helps."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from monopath.v1 import config_pb2, location_pb2, service_pb2, service_pb2_grpc
from monopath_server.settings import DeviceMode
from tests.stream.shared_rig import SharedRig, finished, shared_rig
from tests.support.segments import ClientMemory, shared_directory
from tests.support.server import quick_settings
from tests.support.stream import PathName, RawStream, Rig, encoded, make_config, make_item, photo, png, running_rig

PATHS: tuple[PathName, ...] = ("local", "deferred_cpu", "deferred_cuda")


async def refused(rig: Rig, config: Any, path: PathName = "deferred_cpu") -> RawStream:
    """A stream that was refused for its transport; the server goes on serving others inline."""
    stream = RawStream(rig.channel, path, rig.directory)
    await stream.send(config)
    assert await stream.finish() == "FAILED_PRECONDITION"
    assert stream.reason == "TRANSPORT_UNAVAILABLE"
    assert stream.failure is not None
    assert stream.failure.message.startswith("shared_memory: ")
    assert not stream.failure.violations
    assert str(rig.directory) not in stream.failure.message.replace("/dev/shm: containers", "")
    control = await rig.run([make_item(1, encoded(png(photo(50, 40))))])
    assert control.outcomes[1].completion is not None
    return stream


def message_of(stream: RawStream) -> str:
    assert stream.failure is not None
    return stream.failure.message


async def transports(rig: Rig) -> dict[str, service_pb2.TransportCapability]:
    stub: Any = service_pb2_grpc.PreprocessingServiceStub(rig.channel)
    found = await stub.GetCapabilities(service_pb2.GetCapabilitiesRequest())
    return {transport.name: transport for transport in found.transports}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.asyncio
async def test_a_stream_without_a_probe_is_refused_on_every_path(path: PathName) -> None:
    async with shared_rig(cuda=DeviceMode.INTERPRETER) as rig:
        config = rig.config(path)
        config.config.output.shared_memory.ClearField("probe")
        stream = await refused(rig, config, path)
    assert "expected a probe with a nonce of 16 bytes or more" in message_of(stream)


@pytest.mark.parametrize("nonce_bytes", [1, 15])
@pytest.mark.asyncio
async def test_a_secret_that_could_be_guessed_is_refused(nonce_bytes: int) -> None:
    async with shared_rig() as rig:
        rig.memory.probe.nonce = rig.memory.probe.nonce[:nonce_bytes]
        stream = await refused(rig, rig.config())
    assert message_of(stream).endswith(f"got {nonce_bytes}")


@pytest.mark.asyncio
async def test_a_probe_that_the_server_does_not_find_is_refused_with_what_to_look_at() -> None:
    with shared_directory() as elsewhere, ClientMemory(elsewhere) as other:
        async with shared_rig() as rig:
            stream = await refused(rig, make_config(probe=other.probe))
    for hint in ("on one host", "as one user", "--ipc", "No such file"):
        assert hint in message_of(stream)


@pytest.mark.asyncio
async def test_other_bytes_than_the_secret_are_refused() -> None:
    async with shared_rig() as rig:
        rig.memory.probe.nonce = bytes(32)
        stream = await refused(rig, rig.config())
    assert "expected the client's nonce in its segment, got other bytes" in message_of(stream)


def a_path(directory: Path, _name: str) -> str:
    return f"../{directory.name}/secret"


def a_nul(_directory: Path, name: str) -> str:
    return f"{name}\0"


def another_file(_directory: Path, _name: str) -> str:
    return "secret"


def a_link(directory: Path, name: str) -> str:
    (directory / name).symlink_to(directory / "secret")
    return name


def a_pipe(directory: Path, name: str) -> str:
    os.mkfifo(directory / name)
    return name


def a_folder(directory: Path, name: str) -> str:
    (directory / name).mkdir()
    return name


@pytest.mark.parametrize(
    "make_name", [a_path, a_nul, another_file, a_link, a_pipe, a_folder], ids=lambda make: make.__name__
)
@pytest.mark.asyncio
async def test_a_hostile_probe_is_refused_though_its_secret_is_there(make_name: Callable[[Path, str], str]) -> None:
    nonce = bytes(range(32))
    async with shared_rig() as rig:
        (rig.directory / "secret").write_bytes(nonce)
        name = make_name(rig.directory, rig.memory.name())
        probe = location_pb2.SharedMemoryProbe(name=name, nonce=nonce)
        await refused(rig, make_config(probe=probe))
        # The true probe still opens a stream.
        await finished(await rig.open_shared())


@pytest.mark.asyncio
async def test_a_name_or_a_secret_over_its_length_is_a_wrong_field() -> None:
    async with shared_rig() as rig:
        config = rig.config()
        config.config.output.shared_memory.probe.name = "m" * 129
        config.config.output.shared_memory.probe.nonce = bytes(65)
        stream = RawStream(rig.channel, "deferred_cpu")
        await stream.send(config)
        assert await stream.finish() == "INVALID_ARGUMENT"
    assert sorted(stream.violated_fields) == [
        "config.output.shared_memory.probe.name",
        "config.output.shared_memory.probe.nonce",
    ]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.asyncio
async def test_a_wrong_config_is_told_before_a_missing_transport(path: PathName) -> None:
    settings = quick_settings(max_shared_memory_bytes=0, cuda=DeviceMode.INTERPRETER)
    with shared_directory() as directory, ClientMemory(directory) as memory:
        async with running_rig(settings) as rig:
            config = make_config(path, config_pb2.ProcessorConfig(), probe=memory.probe)
            config.config.output.data_type = 0
            stream = RawStream(rig.channel, path)
            await stream.send(config)
            assert await stream.finish() == "INVALID_ARGUMENT"
            assert stream.reason == "CONFIG_INVALID"
            assert sorted(stream.violated_fields) == ["config.output.data_type", "config.processor.source"]
            right = make_config(path, probe=memory.probe)
            stream = await refused(rig, right, path)
            assert "switched off" in message_of(stream)


@pytest.mark.asyncio
async def test_a_missing_device_is_told_before_a_missing_transport() -> None:
    async with running_rig(quick_settings(max_shared_memory_bytes=0)) as rig:
        stream = RawStream(rig.channel, "deferred_cuda")
        await stream.send(make_config("deferred_cuda", probe=location_pb2.SharedMemoryProbe(name="x", nonce=b"y" * 16)))
        assert await stream.finish() == "FAILED_PRECONDITION"
    assert stream.reason == "DEVICE_UNAVAILABLE"


@pytest.mark.asyncio
async def test_capabilities_say_that_there_is_shared_memory() -> None:
    async with shared_rig() as rig:
        found = (await transports(rig))["shared_memory"]
    assert found.available
    assert found.unavailable_reason == ""


@pytest.mark.asyncio
async def test_a_server_whose_shared_memory_is_switched_off_says_so_and_touches_no_directory() -> None:
    with shared_directory() as directory, ClientMemory(directory) as memory:
        before = sorted(directory.iterdir())
        settings = quick_settings(shared_memory_directory=directory, max_shared_memory_bytes=0)
        async with running_rig(settings) as rig:
            found = (await transports(rig))["shared_memory"]
            stream = await refused(rig, make_config(probe=memory.probe))
            assert sorted(directory.iterdir()) == before
    assert not found.available
    assert found.unavailable_reason == "shared memory is switched off in the server's settings"
    assert found.unavailable_reason in message_of(stream)


@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.asyncio
async def test_a_server_without_its_directory_serves_inline_and_says_why(
    is_file: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    missing = tmp_path / "missing"
    if is_file:
        missing.write_text("")
    with shared_directory() as directory, ClientMemory(directory) as memory:
        async with running_rig(quick_settings(shared_memory_directory=missing)) as rig:
            found = (await transports(rig))["shared_memory"]
            stream = await refused(rig, make_config(probe=memory.probe))
    assert not found.available
    assert "cannot use its directory" in found.unavailable_reason
    assert found.unavailable_reason in message_of(stream)
    assert str(missing) not in message_of(stream)
    assert str(missing) in caplog.text


@pytest.mark.asyncio
async def test_a_client_that_ends_the_stream_after_ready_leaves_nothing_behind() -> None:
    """A client that does not find the server's probe does so."""
    async with shared_rig() as rig:
        for _ in range(20):
            stream: RawStream = await rig.open_shared()
            stream.call.cancel()
        await finished(await SharedRig.open_shared(rig))
