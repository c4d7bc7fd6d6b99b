"""The server that a command talks to: a running one, or one of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from monopath import Client, MonopathError
from monopath.cli.connection_options import ServerChoice
from monopath.cli.faults import ExitCode, UserFault, needs_server, of_client_error
from monopath.cli.output import error_console
from monopath.shared_memory import DEFAULT_DIRECTORY

__all__ = ["connected"]

_ANSWER_WITHIN_SECONDS = 5.0


@contextlib.contextmanager
def connected(
    server: ServerChoice | None, *, needs_cuda: bool = False, shared_memory_directory: Path | None = None
) -> Iterator[Client]:
    """Give a client of a running server, or of one that lives as long as the context does.

    `shared_memory_directory` is where both meet; None: the usual one.

    Raises UserFault where no server answers, and for every `MonopathError` that leaves the context.
    """
    answered = False
    try:
        if server is not None:
            with _client_of(server, shared_memory_directory) as client:
                # A stream has no deadline of its own; this call tells soon that nobody answers.
                client.capabilities(timeout_seconds=_ANSWER_WITHIN_SECONDS)
                answered = True
                yield client
        else:
            own_server = _own_server(needs_cuda=needs_cuda, shared_memory_directory=shared_memory_directory)
            with (
                own_server as own_address,
                Client(own_address, shared_memory_directory=shared_memory_directory) as client,
            ):
                yield client
    except MonopathError as error:
        raise of_client_error(error, None if server is None else server.address, answered=answered) from None


def _client_of(server: ServerChoice, shared_memory_directory: Path | None) -> Client:
    try:
        return Client(
            server.address,
            credentials=server.credentials,
            token=server.token,
            shared_memory_directory=shared_memory_directory,
        )
    except OSError as error:
        raise UserFault(f"Cannot read {error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise UserFault(str(error)) from None


@contextlib.contextmanager
def _own_server(*, needs_cuda: bool, shared_memory_directory: Path | None) -> Iterator[str]:
    try:
        from monopath_server.embedded import embedded_server
        from monopath_server.settings import DeviceMode, Settings
    except ModuleNotFoundError as error:
        raise needs_server("A command without --server starts a server of its own, which", error) from None
    # Looking for a GPU takes seconds, and a context on it hundreds of MiB.
    settings = Settings(
        cuda=DeviceMode.AUTO if needs_cuda else DeviceMode.OFF,
        shared_memory_directory=shared_memory_directory or DEFAULT_DIRECTORY,
    )
    with contextlib.ExitStack() as stack:
        try:
            with _status("Starting a server"):
                address = stack.enter_context(embedded_server(settings))
        except RuntimeError as error:
            raise UserFault(f"This installation cannot serve: {error}", ExitCode.FAILED) from None
        yield address


@contextlib.contextmanager
def _status(text: str) -> Iterator[None]:
    """Say on a terminal what is waited for."""
    console = error_console()
    with console.status(text) if console.is_terminal else contextlib.nullcontext():
        yield
