"""What ends a command early, as one text and one exit code; users never see a traceback for a fault of their own."""

from __future__ import annotations

import enum
import re

from monopath import (
    CallError,
    ConnectionFailed,
    CredentialsRefused,
    DeadlineExceeded,
    MonopathError,
    RequestRefused,
    StreamRefused,
)

__all__ = ["ExitCode", "UserFault", "needs_server", "of_client_error"]

_HANDSHAKE = re.compile(r"OPENSSL_internal:(\w+)(?:: ([^:]+))?")


class ExitCode(enum.IntEnum):
    """How a command ended."""

    OK = 0
    FAILED = 1
    """At least one image failed, or a server could not start."""
    USAGE = 2
    """The command line, a file that it names or a config is wrong, or the server refused the request."""
    UNREACHABLE = 3
    """No server answered, or the connection to it was lost."""


class UserFault(Exception):
    """A command cannot go on. The text is printed as it is, on stderr."""

    def __init__(self, text: str, exit_code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(text)
        self.text = text
        self.exit_code = exit_code


def of_client_error(error: MonopathError, address: str | None, *, answered: bool) -> UserFault:
    """Say in a few lines what a call ended with.

    `address` is the server's, None for one of our own; `answered`, whether it had answered before.
    """
    where = "the command's own server" if address is None else address
    match error:
        case ConnectionFailed() | DeadlineExceeded():
            what = "Lost the server at" if answered else "No monopath server answers at"
            return UserFault(f"{what} {where} ({_cause(error.message)})", ExitCode.UNREACHABLE)
        case CredentialsRefused():
            return UserFault(f"Refused by {where}: {_explained(error)}; see --token-file")
        case StreamRefused() | RequestRefused():
            return UserFault(f"Refused by {where}: {_explained(error)}")
        case CallError():
            return UserFault(f"Stopped by {where}: {_explained(error)}", ExitCode.UNREACHABLE)
        case _:
            return UserFault(f"Lost {where}: {error}", ExitCode.UNREACHABLE)


def needs_server(what: str, error: ModuleNotFoundError) -> UserFault:
    """Say how to install what only a server, and what runs like one, needs."""
    return UserFault(f"{what} needs monopath[server] ({error.name} is not installed): pip install 'monopath[server]'")


def _cause(message: str) -> str:
    """Return what of gRPC's text says why no connection came about, or why it was lost."""
    handshake = _HANDSHAKE.search(message)
    if handshake is not None:
        found = handshake[1].lower().replace("_", " ")
        detail = f": {handshake[2]}" if handshake[2] else ""
        return f"{found}: it has no TLS" if handshake[1] == "WRONG_VERSION_NUMBER" else found + detail
    # The text ends with what the operating system said.
    cause = message.rpartition(": ")[2].strip("]")
    # All that a server with TLS does where a client lacks it, or lacks a certificate of its own.
    return f"{cause}; does it want TLS, or a certificate of this side?" if cause == "Socket closed" else cause


def _explained(error: CallError) -> str:
    head = f"{error.reason or error.code.name}: {error.message}"
    return "\n".join([head, *(f"  {wrong.field}: {wrong.description}" for wrong in error.violations)])
