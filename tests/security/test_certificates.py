"""TLS: certificates that are replaced while streams live, those that cannot be used, and clients that must show one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from cryptography.hazmat.primitives import serialization

from monopath import AsyncClient, ConnectionFailed, Tls
from monopath_server.app import Server
from monopath_server.security.certificates import CertificateFiles, server_credentials
from monopath_server.security.settings import SecurityError, SecuritySettings
from tests.support.certificates import Authority, CertificatePair, replace_file, serial_shown_at
from tests.support.server import quick_settings, running_server
from tests.support.stream import Rig, encoded, make_item, photo, png

SMALL = encoded(png(photo(50, 40)))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def stranger() -> Authority:
    return Authority()


def tls_settings(folder: Path, pair: CertificatePair, client_ca_file: Path | None = None) -> SecuritySettings:
    certificate, private_key = pair.write(folder)
    return SecuritySettings(certificate_file=certificate, private_key_file=private_key, client_ca_file=client_ca_file)


@asynccontextmanager
async def tls_rig(security: SecuritySettings, authority: Authority) -> AsyncIterator[Rig]:
    credentials = grpc.ssl_channel_credentials(authority.certificate)
    async with (
        Server(quick_settings(security=security)) as server,
        grpc.aio.secure_channel(server.address, credentials) as channel,
    ):
        yield Rig(server, channel)


@pytest.mark.asyncio
async def test_a_new_certificate_is_shown_to_new_connections_while_a_live_stream_goes_on(
    tmp_path: Path, authority: Authority
) -> None:
    first, second = authority.pair(), authority.pair()
    async with tls_rig(tls_settings(tmp_path, first), authority) as rig:
        stream = await rig.open()
        assert await asyncio.to_thread(serial_shown_at, rig.server.address) == first.serial
        second.write(tmp_path)
        assert await asyncio.to_thread(serial_shown_at, rig.server.address) == second.serial
        await stream.send(make_item(1, SMALL))
        assert await stream.finish() == "OK"
        assert stream.outcomes[1].completion is not None


@pytest.mark.asyncio
async def test_a_change_that_is_half_done_leaves_the_certificate_of_before_and_is_logged_once(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = authority.pair(), authority.pair()
    async with running_server(quick_settings(security=tls_settings(tmp_path, first))) as address:
        (tmp_path / "cert.pem").write_bytes(second.certificate[:100])
        for _ in range(3):
            assert await asyncio.to_thread(serial_shown_at, address) == first.serial
        [torn] = caplog.records
        assert torn.levelno == logging.WARNING
        assert f"{tmp_path / 'cert.pem'}" in torn.getMessage()
        replace_file(tmp_path / "cert.pem", second.certificate)
        assert await asyncio.to_thread(serial_shown_at, address) == first.serial
        (tmp_path / "key.pem").unlink()
        assert await asyncio.to_thread(serial_shown_at, address) == first.serial
        [_, mismatched, missing] = [record.getMessage() for record in caplog.records]
        assert "key values mismatch" in mismatched
        assert "Cannot read" in missing
        second.write(tmp_path)
        assert await asyncio.to_thread(serial_shown_at, address) == second.serial
    assert not any("PRIVATE" in record.getMessage() for record in caplog.records)


@pytest.mark.asyncio
async def test_a_server_of_another_authority_is_not_talked_to(
    tmp_path: Path, authority: Authority, stranger: Authority
) -> None:
    async with running_server(quick_settings(security=tls_settings(tmp_path, stranger.pair()))) as address:
        with pytest.raises(ConnectionFailed, match="CERTIFICATE_VERIFY_FAILED"):
            await asked(address, Tls(authority.certificate))
        await asked(address, Tls(stranger.certificate))


@pytest.mark.asyncio
async def test_a_certificate_of_another_name_is_taken_where_the_name_is_given(
    tmp_path: Path, authority: Authority
) -> None:
    security = tls_settings(tmp_path, authority.pair("features.example"))
    async with running_server(quick_settings(security=security)) as address:
        with pytest.raises(ConnectionFailed):
            await asked(address, Tls(authority.certificate))
        await asked(address, Tls(authority.certificate, server_name="features.example"))


@pytest.mark.asyncio
async def test_plaintext_is_not_talked_to_a_server_with_tls(tmp_path: Path, authority: Authority) -> None:
    async with running_server(quick_settings(security=tls_settings(tmp_path, authority.pair()))) as address:
        with pytest.raises(ConnectionFailed):
            await asked(address, None)


@pytest.mark.asyncio
async def test_with_a_client_authority_only_its_clients_are_let_in(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, authority: Authority, stranger: Authority
) -> None:
    security = tls_settings(tmp_path, authority.pair(), client_ca_file=authority.write(tmp_path))
    known, unknown = authority.pair("gateway.example"), stranger.pair("gateway.example")
    async with running_server(quick_settings(security=security)) as address:
        for credentials in (
            Tls(authority.certificate),
            Tls(authority.certificate, unknown.certificate, unknown.private_key),
        ):
            with pytest.raises(ConnectionFailed):
                await asked(address, credentials)
        certificate, private_key = known.write(tmp_path_factory.mktemp("client"))
        await asked(address, Tls(tmp_path / "ca.pem", certificate, private_key))


@pytest.mark.asyncio
async def test_a_new_client_authority_holds_for_new_connections(
    tmp_path: Path, authority: Authority, stranger: Authority
) -> None:
    security = tls_settings(tmp_path, authority.pair(), authority.write(tmp_path))
    pair = stranger.pair("gateway.example")
    credentials = Tls(authority.certificate, pair.certificate, pair.private_key)
    async with running_server(quick_settings(security=security)) as address:
        with pytest.raises(ConnectionFailed):
            await asked(address, credentials)
        replace_file(tmp_path / "ca.pem", authority.certificate + stranger.certificate)
        await asked(address, credentials)


async def asked(address: str, credentials: Tls | None) -> None:
    async with AsyncClient(address, credentials=credentials) as client:
        await client.capabilities(timeout_seconds=30)


def test_files_that_cannot_be_used_are_named_with_the_cause(
    tmp_path: Path, authority: Authority, stranger: Authority
) -> None:
    certificate, private_key = authority.pair().write(tmp_path)
    other_key = replace_file(tmp_path / "other.pem", stranger.pair().private_key)
    garbage = replace_file(tmp_path / "garbage.pem", b"\x00no PEM")
    huge = replace_file(tmp_path / "huge.pem", bytes((1 << 20) + 1))
    for files, complaint in (
        (CertificateFiles(certificate, other_key), "key values mismatch"),
        (CertificateFiles(garbage, private_key), f"Expected a certificate in {garbage}"),
        (CertificateFiles(certificate, garbage), f"its key in {garbage}"),
        (CertificateFiles(certificate, encrypted(tmp_path, private_key)), "the key is encrypted"),
        (CertificateFiles(certificate, private_key, garbage), f"Expected certificates of authorities in {garbage}"),
        (CertificateFiles(certificate, private_key, private_key), "Expected certificates of authorities"),
        (CertificateFiles(tmp_path / "none", private_key), "none: No such file or directory"),
        (CertificateFiles(tmp_path, private_key), "Expected a file"),
        (CertificateFiles(huge, private_key), "Expected at most 1048576 bytes"),
    ):
        with pytest.raises(SecurityError) as caught:
            server_credentials(files)
        assert complaint in str(caught.value)


def test_a_key_that_every_user_can_read_is_told_of(
    tmp_path: Path, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    files = CertificateFiles(*authority.pair().write(tmp_path))
    server_credentials(files)
    assert caplog.records == []
    files.private_key.chmod(0o644)
    server_credentials(files)
    [warning] = caplog.records
    assert f"{files.private_key} (mode 0644)" in warning.getMessage()


def encrypted(folder: Path, private_key: Path) -> Path:
    key = serialization.load_pem_private_key(private_key.read_bytes(), None)
    content = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    return replace_file(folder / "encrypted.pem", content)
