"""Where a server listens without being told twice, and what it tells about itself there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from monopath.locality import is_on_this_host
from monopath_server.app import Server
from monopath_server.security.settings import Exposure, SecurityError, SecuritySettings, check_security
from tests.support.certificates import Authority
from tests.support.health import health_status
from tests.support.server import quick_settings, running_server
from tests.support.stream import running_rig

ANYWHERE = "0.0.0.0:0"
CERTIFICATE, KEY, CLIENT_CA = Path("cert.pem"), Path("key.pem"), Path("ca.pem")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("127.0.0.1:50051", True),
        ("127.9.8.7:1", True),
        ("[::1]:50051", True),
        ("localhost:50051", True),
        ("LocalHost:50051", True),
        ("unix:/run/monopath", True),
        ("unix:///run/monopath", True),
        ("unix-abstract:monopath", True),
        ("dns:///localhost:50051", True),
        ("ipv4:127.0.0.1:1,127.0.0.1:2", True),
        ("ipv6:[::1]:1", True),
        ("0.0.0.0:50051", False),
        ("[::]:50051", False),
        ("10.0.0.1:50051", False),
        ("localhost.example.com:50051", False),
        ("127.0.0.1.example.com:50051", False),
        ("127.1:50051", False),
        ("example.com", False),
        ("dns:///features.example.com:50051", False),
        ("dns://127.0.0.1/features.example.com:50051", False),
        ("dns://10.0.0.53/localhost:50051", False),
        ("ipv4:127.0.0.1:1,10.0.0.1:2", False),
        ("xds:///localhost", False),
        ("passthrough:///127.0.0.1:1", False),
        ("[fe80::1]:50051", False),
        ("", False),
    ],
)
def test_what_is_on_this_host_is_told_from_an_addresss_text(target: str, expected: bool) -> None:
    assert is_on_this_host(target) is expected


@pytest.mark.parametrize(
    ("address", "settings", "complaint"),
    [
        (ANYWHERE, SecuritySettings(), "Expected TLS beyond this host, got none for 0.0.0.0:0"),
        ("[::]:50051", SecuritySettings(token_file=Path("tokens")), "Expected TLS beyond this host"),
        (ANYWHERE, SecuritySettings(insecure=True, channelz=True), "--channelz"),
        ("127.0.0.1:0", SecuritySettings(certificate_file=CERTIFICATE), "got one of them"),
        ("127.0.0.1:0", SecuritySettings(private_key_file=KEY), "got one of them"),
        ("127.0.0.1:0", SecuritySettings(client_ca_file=CLIENT_CA), "beside --tls-client-ca"),
    ],
)
def test_settings_that_leave_a_server_open_are_refused(
    address: str, settings: SecuritySettings, complaint: str
) -> None:
    with pytest.raises(SecurityError, match=complaint):
        Server(quick_settings(address=address, security=settings))


def test_what_is_safe_or_said_to_be_is_not_refused() -> None:
    check_security("127.0.0.1:0", SecuritySettings(channelz=True))
    check_security("unix:/run/monopath", SecuritySettings(channelz=True))
    check_security(ANYWHERE, SecuritySettings(insecure=True))
    check_security(ANYWHERE, SecuritySettings(certificate_file=CERTIFICATE, private_key_file=KEY))


@pytest.mark.asyncio
async def test_a_unix_socket_is_for_its_owner_alone_from_its_first_instant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "socket"
    first_modes: list[int] = []
    chmod = Path.chmod

    def watched(changed: Path, mode: int) -> None:
        first_modes.append(stat.S_IMODE(changed.stat().st_mode))
        chmod(changed, mode)

    monkeypatch.setattr(Path, "chmod", watched)
    umask = os.umask(0)
    try:
        async with running_rig(quick_settings(address=f"unix:{path}")) as rig:
            mode = path.stat().st_mode
            assert (stat.S_ISSOCK(mode), stat.S_IMODE(mode)) == (True, 0o600)
            assert await health_status(rig.channel) == "SERVING"
    finally:
        assert os.umask(umask) == 0, "Expected the umask of before"
    assert first_modes == [0o700]


@pytest.mark.parametrize(
    ("address", "reflection", "expected"),
    [
        ("127.0.0.1:0", Exposure.AUTO, "OK"),
        ("127.0.0.1:0", Exposure.ON, "OK"),
        ("127.0.0.1:0", Exposure.OFF, "UNIMPLEMENTED"),
        (ANYWHERE, Exposure.AUTO, "UNIMPLEMENTED"),
        (ANYWHERE, Exposure.ON, "OK"),
        (ANYWHERE, Exposure.OFF, "UNIMPLEMENTED"),
    ],
)
@pytest.mark.asyncio
async def test_the_contract_can_be_asked_for_on_this_host_only_unless_told_otherwise(
    address: str, reflection: Exposure, expected: str
) -> None:
    security = SecuritySettings(insecure=True, reflection=reflection)
    async with (
        running_server(quick_settings(address=address, security=security)) as where,
        grpc.aio.insecure_channel(where.replace("0.0.0.0", "127.0.0.1")) as channel,
    ):
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        with contextlib.suppress(grpc.aio.AioRpcError):
            answers = [response async for response in call]
            assert "monopath.v1.PreprocessingService" in str(answers)
        assert (await call.code()).name == expected


@pytest.mark.parametrize("channelz", [True, False])
@pytest.mark.asyncio
async def test_grpcs_counters_can_be_asked_for_where_that_was_asked_for(channelz: bool) -> None:
    async with running_rig(quick_settings(security=SecuritySettings(channelz=channelz))) as rig:
        await rig.run([])
        stub: Any = channelz_pb2_grpc.ChannelzStub(rig.channel)
        if channelz:
            # Those of this process: other tests' may not be gone yet.
            servers = (await stub.GetServers(channelz_pb2.GetServersRequest())).server
            assert max(server.data.calls_started for server in servers) >= 2
        else:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.GetServers(channelz_pb2.GetServersRequest())
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.asyncio
async def test_beyond_this_host_a_server_with_tls_listens(tmp_path: Path) -> None:
    authority = Authority()
    certificate, private_key = authority.pair().write(tmp_path)
    security = SecuritySettings(certificate_file=certificate, private_key_file=private_key)
    async with running_server(quick_settings(address=ANYWHERE, security=security)) as address:
        _, _, port = address.rpartition(":")
        credentials = grpc.ssl_channel_credentials(authority.certificate)
        async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
            assert await asyncio.wait_for(health_status(channel), 30) == "SERVING"
