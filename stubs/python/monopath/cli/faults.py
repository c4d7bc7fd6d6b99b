"""What ends a command early, as one text and one exit code; users never see a traceback for a fault of their own."""

from __future__ import annotations

import enum

from monopath import CallError, ConnectionFailed, DeadlineExceeded, MonopathError, RequestRefused, StreamRefused

__all__ = ["ExitCode", "UserFault", "needs_server", "of_client_error"]


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
            # gRPC's text ends with what the operating system said.
            cause = error.message.rpartition(": ")[2].strip("]")
            what = "Lost the server at" if answered else "No monopath server answers at"
            return UserFault(f"{what} {where} ({cause})", ExitCode.UNREACHABLE)
        case StreamRefused() | RequestRefused():
            return UserFault(f"Refused by {where}: {_explained(error)}")
        case CallError():
            return UserFault(f"Stopped by {where}: {_explained(error)}", ExitCode.UNREACHABLE)
        case _:
            return UserFault(f"Lost {where}: {error}", ExitCode.UNREACHABLE)


def needs_server(what: str, error: ModuleNotFoundError) -> UserFault:
    """Say how to install what only a server, and what runs like one, needs."""
    return UserFault(f"{what} needs monopath[server] ({error.name} is not installed): pip install 'monopath[server]'")


def _explained(error: CallError) -> str:
    head = f"{error.reason or error.code.name}: {error.message}"
    return "\n".join([head, *(f"  {wrong.field}: {wrong.description}" for wrong in error.violations)])
