"""Bearer tokens: which calls need one, which are known, and how a file of them is replaced."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from monopath.v1 import service_pb2, service_pb2_grpc
from monopath_server.security.settings import SecurityError, SecuritySettings
from monopath_server.security.tokens import Tokens, bearer_token
from tests.support.certificates import replace_file
from tests.support.health import health_status
from tests.support.server import quick_settings
from tests.support.stream import RawStream, Rig, encoded, make_config, make_item, photo, png, running_rig

FIRST, SECOND = "first-0123456789abcdef", "second-0123456789abcdef"
SMALL = encoded(png(photo(50, 40)))
METHODS = [method.name for method in service_pb2.DESCRIPTOR.services_by_name["PreprocessingService"].methods]


def token_file(folder: Path, *tokens: str) -> Path:
    return replace_file(folder / "tokens", "".join(f"{token}\n" for token in tokens).encode())


@asynccontextmanager
async def token_rig(file: Path) -> AsyncIterator[Rig]:
    async with running_rig(quick_settings(security=SecuritySettings(token_file=file, channelz=True))) as rig:
        yield rig


@pytest.mark.parametrize("method", [*METHODS, "reflection", "channelz", "unknown"])
@pytest.mark.asyncio
async def test_a_call_of_any_method_without_a_token_is_refused_with_a_reason(method: str, tmp_path: Path) -> None:
    async with token_rig(token_file(tmp_path, FIRST)) as rig:
        assert await refusal(started(rig.channel, method)) == ("UNAUTHENTICATED", "CREDENTIALS_INVALID")


@pytest.mark.asyncio
async def test_health_is_told_to_everyone(tmp_path: Path) -> None:
    async with token_rig(token_file(tmp_path, FIRST)) as rig:
        assert await health_status(rig.channel) == "SERVING"


@pytest.mark.asyncio
async def test_each_of_several_tokens_is_let_in_by_every_method(tmp_path: Path) -> None:
    async with token_rig(token_file(tmp_path, "# of the gateway", FIRST, "", f"  {SECOND}  ")) as rig:
        for token in (FIRST, SECOND):
            for method in [*METHODS, "reflection", "channelz"]:
                call = started(rig.channel, method, ("authorization", f"Bearer {token}"))
                if method.startswith("Stream") or method == "Plan":
                    # Let in, and refused for what was asked.
                    assert await refusal(call) != ("UNAUTHENTICATED", "CREDENTIALS_INVALID")
                    assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
                else:
                    assert await (anext(aiter(call)) if method == "reflection" else call)
                    call.cancel()


@pytest.mark.parametrize(
    "metadata",
    [
        [("authorization", f"Bearer {FIRST}x")],
        [("authorization", f"Bearer {FIRST[:-1]}")],
        [("authorization", "Bearer ")],
        [("authorization", "Bearer")],
        [("authorization", FIRST)],
        [("authorization", f"Basic {FIRST}")],
        [("authorization", f"Bearer {FIRST}"), ("authorization", f"Bearer {FIRST}")],
        [("token", FIRST)],
        [("authorization", "Bearer # of the gateway")],
    ],
)
@pytest.mark.asyncio
async def test_what_is_no_known_token_is_refused(metadata: list[tuple[str, str]], tmp_path: Path) -> None:
    async with token_rig(token_file(tmp_path, "# of the gateway", FIRST)) as rig:
        call = started(rig.channel, "GetCapabilities", *metadata)
        assert await refusal(call) == ("UNAUTHENTICATED", "CREDENTIALS_INVALID")


def test_the_scheme_is_read_in_any_case() -> None:
    assert bearer_token([("authorization", "bearer abc")]) == "abc"
    assert bearer_token([("authorization", "BEARER  abc")]) == "abc"


@pytest.mark.asyncio
async def test_tokens_come_and_go_while_a_live_stream_goes_on(tmp_path: Path) -> None:
    file = token_file(tmp_path, FIRST)
    async with token_rig(file) as rig:
        first, second = (("authorization", f"Bearer {token}") for token in (FIRST, SECOND))
        stream = RawStream(rig.channel, "deferred_cpu", metadata=[first])
        await stream.send(make_config())
        await stream.read_until("ready")
        token_file(tmp_path, FIRST, SECOND)
        for metadata in (first, second):
            assert await started(rig.channel, "GetCapabilities", metadata)
        token_file(tmp_path, SECOND)
        assert await refusal(started(rig.channel, "GetCapabilities", first)) == (
            "UNAUTHENTICATED",
            "CREDENTIALS_INVALID",
        )
        assert await started(rig.channel, "GetCapabilities", second)
        await stream.send(make_item(1, SMALL))
        assert await stream.finish() == "OK"
        assert stream.outcomes[1].completion is not None


def test_a_file_that_is_gone_or_wrong_leaves_the_tokens_of_before_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = token_file(tmp_path, FIRST)
    tokens = Tokens(file)
    for damage in (file.unlink, lambda: file.write_text(""), lambda: file.write_text(f"{SECOND}\nshort\n")):
        caplog.clear()
        damage()
        for _ in range(3):
            assert tokens.knows(FIRST)
            assert not tokens.knows(SECOND)
        [record] = caplog.records
        assert "Went on with the tokens of before" in record.getMessage()
    token_file(tmp_path, SECOND)
    assert tokens.knows(SECOND)
    assert not tokens.knows(FIRST)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "Expected a token in"),
        ("# nothing else\n\n", "Expected a token in"),
        (f"{FIRST}\nsecret pass phrase\n", "in line 2 of"),
        ("only-15-letters\n", "of at least 16"),
        ("täglich-frische-tokens\n", "in line 1 of"),
    ],
)
def test_a_file_without_a_good_token_is_refused_without_showing_it(
    content: str, complaint: str, tmp_path: Path
) -> None:
    file = replace_file(tmp_path / "tokens", content.encode())
    with pytest.raises(SecurityError) as caught:
        Tokens(file)
    assert complaint in str(caught.value)
    assert str(file) in str(caught.value)
    for line in content.splitlines():
        assert not line or line not in str(caught.value)


def test_a_file_that_every_user_can_read_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = token_file(tmp_path, FIRST)
    Tokens(file)
    assert caplog.records == []
    file.chmod(0o604)
    Tokens(file)
    [warning] = caplog.records
    assert f"{file} (mode 0604)" in warning.getMessage()


def started(channel: grpc.aio.Channel, method: str, *metadata: tuple[str, str]) -> Any:
    """Begin a call that a server without tokens would answer, or refuse as INVALID_ARGUMENT."""
    if method == "reflection":
        requests = [reflection_pb2.ServerReflectionRequest(list_services="")]
        reflection: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        return reflection.ServerReflectionInfo(iter(requests), metadata=metadata)
    if method == "channelz":
        channelz: Any = channelz_pb2_grpc.ChannelzStub(channel)
        return channelz.GetServers(channelz_pb2.GetServersRequest(), metadata=metadata)
    if method == "unknown":
        unknown: Any = channel.unary_unary("/monopath.v1.PreprocessingService/Unknown")
        return unknown(b"", metadata=metadata)
    stub = getattr(service_pb2_grpc.PreprocessingServiceStub(channel), method)
    if method.startswith("Stream"):
        return stub(iter(()), metadata=metadata)
    return stub(getattr(service_pb2, f"{method}Request")(), metadata=metadata)


async def refusal(call: Any) -> tuple[str, str]:
    """Return the code and the reason that a call ended with, once what came before was read."""
    if isinstance(call, grpc.aio.StreamStreamCall):
        with contextlib.suppress(grpc.aio.AioRpcError):
            async for _ in call:
                pass
    code: grpc.StatusCode = await call.code()
    info = error_details_pb2.ErrorInfo()
    for key, value in await call.trailing_metadata():
        if key == "grpc-status-details-bin":
            assert status_pb2.Status.FromString(value).details[0].Unpack(info)
            assert info.domain == "monopath.v1"
    return code.name, info.reason
