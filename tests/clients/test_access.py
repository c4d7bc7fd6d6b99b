"""A client's token and TLS: what is sent, to whom it is not, and what a refusal is."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from monopath import AsyncClient, Client, CredentialsRefused, Tls
from monopath.v1 import service_pb2
from monopath_server.embedded import embedded_server
from monopath_server.security.settings import SecuritySettings
from tests.clients import wire
from tests.clients.drivers import KINDS, map_all
from tests.clients.fake_server import Servicer, answering, serving
from tests.clients.test_resume import dying, refusing
from tests.support.certificates import Authority, replace_file
from tests.support.server import quick_settings

TOKEN, OTHER = "token-0123456789abcdef", "other-0123456789abcdef"
REMOTE = "features.example.com:50051"


class Listening(Servicer):
    """Answers everything, and keeps the `authorization` of each call."""

    def __init__(self, *scripts: Any) -> None:
        super().__init__(*(self._keeping(script) for script in scripts or [answering()]), unary=self._answer)
        self.heard: list[list[str | bytes]] = []

    def _keeping(self, script: Any) -> Any:
        @functools.wraps(script)
        def kept(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
            self._keep(context)
            return script(requests, context)  # type: ignore[no-any-return]

        return kept

    def _answer(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._keep(context)
        is_plan = isinstance(request, service_pb2.PlanRequest)
        return service_pb2.PlanResponse() if is_plan else service_pb2.GetCapabilitiesResponse()

    def _keep(self, context: grpc.ServicerContext) -> None:
        self.heard.append([value for key, value in context.invocation_metadata() if key == "authorization"])


def unary(kind: str, target: str, call: str, metadata: Any = (), **access: Any) -> Any:
    """Make a unary call with a client of its own."""
    arguments: Any = {"timeout_seconds": 30, "metadata": metadata}

    async def run_async() -> Any:
        async with AsyncClient(target, **access) as client:
            if call == "plan":
                return await client.plan([], preset="kimi-k3", **arguments)
            return await client.capabilities(**arguments)

    if kind == "asyncio":
        return asyncio.run(run_async())
    with Client(target, **access) as client:
        return client.plan([], preset="kimi-k3", **arguments) if call == "plan" else client.capabilities(**arguments)


@KINDS
@pytest.mark.parametrize("as_file", [True, False])
def test_a_token_goes_with_every_call(kind: str, as_file: bool, tmp_path: Path) -> None:
    # A comment may be in any encoding, as in a server's file.
    lines = f"# d'été\n\n  {TOKEN}  \n{OTHER}\n".encode("latin-1")
    token = replace_file(tmp_path / "token", lines) if as_file else TOKEN
    servicer = Listening()
    with serving(servicer) as address:
        map_all(kind, address, [b"a"], access={"token": token})
        unary(kind, address, "plan", token=token)
        unary(kind, address, "capabilities", token=token)
    assert servicer.heard == [[f"Bearer {TOKEN}"]] * 3


@KINDS
def test_without_a_token_none_is_sent_and_the_callers_own_header_comes_first(kind: str) -> None:
    servicer = Listening()
    own = [("authorization", "Basic abc")]
    with serving(servicer) as address:
        map_all(kind, address, [b"a"])
        unary(kind, address, "plan")
        unary(kind, address, "plan", own, token=TOKEN)
        map_all(kind, address, [b"a"], access={"token": TOKEN}, metadata=own)
    assert servicer.heard == [[], [], ["Basic abc"], ["Basic abc"]]


@KINDS
def test_a_file_is_read_again_for_a_stream_that_goes_on_for_a_lost_one(kind: str, tmp_path: Path) -> None:
    """And while it is away, the token of before is sent."""
    file = replace_file(tmp_path / "token", TOKEN.encode())

    def rotate(answer: Any) -> Any:
        replace_file(file, OTHER.encode())
        return wire.CPU.whole_item(answer.id, answer.label, first_value=1.0)

    def remove(answer: Any) -> Any:
        file.unlink()
        return wire.CPU.whole_item(answer.id, answer.label, first_value=1.0)

    servicer = Listening(dying_after(rotate), dying_after(remove), answering())
    with serving(servicer) as address:
        results = map_all(kind, address, [b"a", b"b", b"c"], access={"token": file}, max_unfinished_items=1)
    assert [result.error for result in results] == [None] * 3
    assert servicer.heard == [[f"Bearer {TOKEN}"], [f"Bearer {OTHER}"], [f"Bearer {OTHER}"]]


def dying_after(answer: Any) -> Any:
    """Return the script of a server that answers one item so, and dies at the next."""

    def script(requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        yield from answer(next(requests).item)
        next(requests)
        context.abort(grpc.StatusCode.UNAVAILABLE, "gone")

    return script


@KINDS
def test_a_token_in_plaintext_stays_on_this_host(kind: str) -> None:
    client: Any = Client if kind == "sync" else AsyncClient
    for target in (REMOTE, ["10.0.0.1:50051", "127.0.0.1:50051"], "dns:///features.example.com:50051"):
        with pytest.raises(ValueError, match=r"Expected TLS for a token beyond this host, got plaintext to .+Tls"):
            client(target, token=TOKEN)


@pytest.mark.parametrize("target", [REMOTE, "127.0.0.1:1", "unix:/nowhere", ["127.0.0.1:1", "127.0.0.1:2"]])
def test_a_token_is_taken_with_tls_or_for_this_host(target: Any) -> None:
    with Client(target, token=TOKEN, credentials=Tls() if target == REMOTE else None) as client:
        assert isinstance(client, Client)


@pytest.mark.parametrize(
    ("token", "complaint"),
    [("", "Expected the token to be"), ("two words", "got something else"), ("new\nline", "got something else")],
)
def test_what_is_no_token_is_refused_without_showing_it(token: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=complaint) as caught:
        Client("127.0.0.1:1", token=token)
    assert not token or token not in str(caught.value)
    file = replace_file(tmp_path / "token", token.encode())
    if "\n" not in token:
        with pytest.raises(ValueError, match=f"first line of {file}"):
            Client("127.0.0.1:1", token=file)


def test_files_that_are_not_there_or_no_certificates_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    garbage = replace_file(tmp_path / "garbage.pem", b"garbage")
    with pytest.raises(FileNotFoundError, match="missing"):
        Client("127.0.0.1:1", token=missing)
    with pytest.raises(FileNotFoundError, match="missing"):
        Client("127.0.0.1:1", credentials=Tls(missing))
    with pytest.raises(ValueError, match=f"as PEM in {garbage}, got something else"):
        Client("127.0.0.1:1", credentials=Tls(garbage))
    with pytest.raises(ValueError, match="got one of them"):
        Client("127.0.0.1:1", credentials=Tls(certificate=garbage))


def test_a_key_is_not_shown() -> None:
    pair = Authority().pair("gateway.example")
    assert "PRIVATE KEY" in str(pair.private_key)
    assert "PRIVATE KEY" not in repr(Tls(certificate=pair.certificate, private_key=pair.private_key))


@KINDS
def test_a_token_does_not_go_through_a_proxy_of_the_environment(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    servicer = Listening()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        proxy = f"http://127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.setenv("no_proxy", "")
    with serving(servicer) as address:
        unary(kind, address, "plan", token=TOKEN)
    assert servicer.heard == [[f"Bearer {TOKEN}"]]


@KINDS
def test_a_refusal_has_a_type_of_its_own_on_every_call(kind: str, tmp_path: Path) -> None:
    security = SecuritySettings(token_file=replace_file(tmp_path / "tokens", TOKEN.encode()))
    with embedded_server(quick_settings(security=security)) as address:
        for access in ({}, {"token": OTHER}):
            for call in (
                functools.partial(map_all, kind, address, [b"a"], access=access),
                functools.partial(unary, kind, address, "plan", **access),
                functools.partial(unary, kind, address, "capabilities", **access),
            ):
                with pytest.raises(CredentialsRefused) as caught:
                    call()
                assert caught.value.code is grpc.StatusCode.UNAUTHENTICATED
                assert caught.value.reason == "CREDENTIALS_INVALID"
                assert not caught.value.retryable
        unary(kind, address, "capabilities", token=TOKEN)


@KINDS
@pytest.mark.parametrize("reason", ["CREDENTIALS_INVALID", ""])
def test_a_map_whose_next_stream_is_refused_ends_at_once(kind: str, reason: str) -> None:
    """Also where a proxy refuses, which knows no reasons."""
    servicer = Listening(dying(1), refusing(grpc.StatusCode.UNAUTHENTICATED, reason))
    with serving(servicer) as address, pytest.raises(CredentialsRefused):
        map_all(kind, address, [b"a", b"b", b"c"])
    assert len(servicer.heard) == 2
