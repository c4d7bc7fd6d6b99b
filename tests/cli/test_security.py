"""TLS, tokens and where a server listens, from the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from monopath import Client, StreamRefused, Tls
from tests.cli.conftest import Monopath
from tests.support.certificates import Authority, replace_file
from tests.support.processes import ServerProcess, run_monopath, serving

TOKEN = "token-0123456789abcdef"
NO_CUDA = ("--cuda", "off")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a server (cert.pem, key.pem), of a client (client/...), of their authority (ca.pem), and tokens."""
    folder = tmp_path_factory.mktemp("secrets")
    authority = Authority()
    authority.pair().write(folder)
    authority.write(folder)
    client = folder / "client"
    client.mkdir()
    authority.pair("gateway.example").write(client)
    replace_file(folder / "tokens", f"{TOKEN}\n".encode())
    return folder


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[ServerProcess]:
    """A server that wants both a certificate and a token."""
    options = ("--tls-client-ca", folder / "ca.pem", "--token-file", folder / "tokens", "--max-peer-streams", "1")
    pair = ("--tls-cert", folder / "cert.pem", "--tls-key", folder / "key.pem")
    with serving("--address", "127.0.0.1:0", *pair, *options, *NO_CUDA) as server:
        yield server
        stopped = server.stop()
        assert (stopped.exit_code, stopped.stdout) == (0, "")
        # gRPC itself writes a line for each handshake that fails, and nothing else.
        assert all("Handshake failed" in line for line in stopped.stderr.splitlines())


def access(folder: Path) -> list[str | Path]:
    client = folder / "client"
    pair: list[str | Path] = ["--tls-cert", client / "cert.pem", "--tls-key", client / "key.pem"]
    return ["--tls-ca", folder / "ca.pem", *pair, "--token-file", folder / "tokens"]


def test_every_command_is_let_in_with_what_the_server_wants(
    guarded: ServerProcess, folder: Path, images: list[Path], tmp_path: Path, monopath: Monopath
) -> None:
    commands: list[list[str | Path]] = [
        ["plan", "56x56"],
        ["preprocess", images[0]],
        ["preview", images[0], "--out", tmp_path / "seen.png"],
        ["capabilities"],
        ["verify", images[0], "--path", "deferred-cpu", "--preset", "kimi-k3", "--dtype", "uint8"],
    ]
    for command in commands:
        done = monopath(*command, "--server", guarded.address, *access(folder))
        assert (done.exit_code, done.stderr) == (0, ""), command


def test_what_lets_in_can_come_from_the_environment(guarded: ServerProcess, folder: Path) -> None:
    environment = {
        "MONOPATH_SERVER": guarded.address,
        "MONOPATH_TLS_CA": str(folder / "ca.pem"),
        "MONOPATH_TLS_CLIENT_CERT": str(folder / "client" / "cert.pem"),
        "MONOPATH_TLS_CLIENT_KEY": str(folder / "client" / "key.pem"),
    }
    for token in ({"MONOPATH_TOKEN": TOKEN}, {"MONOPATH_TOKEN_FILE": str(folder / "tokens")}):
        done = run_monopath("plan", "56x56", environment={**environment, **token})
        assert (done.exit_code, done.stderr) == (0, "")


def test_who_is_not_let_in_is_told_why(
    guarded: ServerProcess, folder: Path, monopath: Monopath, tmp_path: Path
) -> None:
    where = ("plan", "56x56", "--server", guarded.address)
    stranger = Authority()
    other_token = replace_file(tmp_path / "token", b"another-0123456789abcdef")
    for arguments, exit_code, text in (
        (access(folder)[:-2], 2, "CREDENTIALS_INVALID: Expected a bearer token"),
        ([*access(folder)[:-1], other_token], 2, "CREDENTIALS_INVALID: Expected a bearer token"),
        (access(folder)[:2], 3, "does it want TLS, or a certificate of this side?"),
        ([], 3, "does it want TLS, or a certificate of this side?"),
        (["--tls-ca", stranger.write(tmp_path)], 3, "certificate verify failed: unable to get local issuer"),
        (["--tls"], 3, "certificate verify failed"),
        (["--tls-ca", tmp_path / "missing"], 2, f"Cannot read {tmp_path / 'missing'}: No such file"),
        (["--tls-ca", other_token], 2, f"Expected certificates of authorities as PEM in {other_token}"),
        (["--tls-cert", other_token], 2, "Expected a certificate of the client and its key, got one of them"),
        (["--token-file", tmp_path / "missing"], 2, f"Cannot read {tmp_path / 'missing'}: No such file"),
    ):
        done = monopath(*where, *arguments)
        assert (done.exit_code, done.stdout) == (exit_code, ""), arguments
        assert text in done.stderr


def test_a_token_is_not_sent_in_plaintext_beyond_this_host(folder: Path, monopath: Monopath) -> None:
    done = monopath("plan", "56x56", "--server", "features.example.com:1", "--token-file", folder / "tokens")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Expected TLS for a token beyond this host, got plaintext to features.example.com:1")


def test_tls_to_a_server_without_is_said_to_be_that(server: ServerProcess, folder: Path, monopath: Monopath) -> None:
    done = monopath("plan", "56x56", "--server", server.address, "--tls-ca", folder / "ca.pem")
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.endswith("(wrong version number: it has no TLS)\n")


def test_peer_limits_reach_the_server(guarded: ServerProcess, folder: Path) -> None:
    pair = folder / "client" / "cert.pem", folder / "client" / "key.pem"
    credentials = Tls(folder / "ca.pem", *pair)
    with (
        Client(guarded.address, credentials=credentials, token=TOKEN) as client,
        client.deferred_cpu(preset="kimi-k3", data_type="uint8"),
        pytest.raises(StreamRefused, match="at most 1 streams of one client"),
        client.deferred_cpu(preset="kimi-k3", data_type="uint8"),
    ):
        pass


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--address", "0.0.0.0:0"], "Expected TLS beyond this host, got none for 0.0.0.0:0"),
        (["--address", "0.0.0.0:0", "--insecure", "--channelz"], "Expected an address of this host for --channelz"),
        (["--tls-cert", "/dev/null"], "--tls-cert and --tls-key"),
        (["--tls-key", "/dev/null"], "--tls-cert and --tls-key"),
        (
            ["--tls-cert", "/nowhere/cert.pem", "--tls-key", "/nowhere/key.pem"],
            "--tls-cert: cannot read /nowhere/cert.pem",
        ),
        (["--tls-client-ca", "/dev/null"], "beside --tls-client-ca"),
        (["--token-file", "/nowhere/tokens"], "--token-file: cannot read /nowhere/tokens"),
        (["--token-file", "/dev/null"], "Expected a file, got /dev/null"),
        (["--reflection", "perhaps"], "--reflection: expected"),
        (["--max-peer-bytes", "many"], "--max-peer-bytes: expected"),
        (["--max-peer-streams", "-1"], "--max-peer-streams: expected 0 to"),
    ],
)
def test_a_server_that_would_be_open_does_not_start(monopath: Monopath, options: list[str], complaint: str) -> None:
    done = monopath("serve", "--address", "127.0.0.1:0", *options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_is_told_to_is_open() -> None:
    with serving("--address", "0.0.0.0:0", "--insecure", *NO_CUDA) as server:
        _, _, port = server.address.rpartition(":")
        with Client(f"127.0.0.1:{port}") as client:
            assert client.capabilities(timeout_seconds=30).paths
