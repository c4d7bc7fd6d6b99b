"""The options of `monopath serve` that bound nothing; see `limit_options` for the others."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from monopath.cli.values import PresetFile, parse_preset
from monopath_server.settings import DeviceMode

__all__ = [
    "AddressOption",
    "CudaOption",
    "LogLevel",
    "LogLevelOption",
    "PresetFilesOption",
    "ReadyFileOption",
    "WorkersOption",
]


class LogLevel(enum.StrEnum):
    """From which level on the log on stderr has an entry."""

    DEBUG = enum.auto()
    INFO = enum.auto()
    WARNING = enum.auto()
    ERROR = enum.auto()


AddressOption: TypeAlias = Annotated[
    str,
    typer.Option(
        envvar="MONOPATH_ADDRESS",
        metavar="ADDRESS",
        help="Where to listen: host:port (port 0: any free one) or unix:/path. Beyond this host it takes TLS, "
        "or --insecure.",
    ),
]
WorkersOption: TypeAlias = Annotated[
    int,
    typer.Option(
        min=1, envvar="MONOPATH_WORKERS", help="Threads that decode and transform.", show_default="one for each CPU"
    ),
]
PresetFilesOption: TypeAlias = Annotated[
    list[PresetFile] | None,
    typer.Option(
        "--preset",
        envvar="MONOPATH_PRESET",
        metavar="NAME=FILE",
        parser=parse_preset,
        help="Have the preprocessor_config.json FILE under NAME, besides those of the families. May be given many "
        "times (in the environment: separated by spaces). A file with wrong keys ends the start with exit code 2 and "
        "the list of them.",
        show_default=False,
    ),
]
CudaOption: TypeAlias = Annotated[
    DeviceMode,
    typer.Option(
        envvar="MONOPATH_CUDA",
        help="Where the path DEFERRED_CUDA makes features. auto: on CUDA devices, if any; off: nowhere, and CUDA is "
        "not looked for; interpreter: on the CPU, very slowly, for tests.",
    ),
]
ReadyFileOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        envvar="MONOPATH_READY_FILE",
        metavar="FILE",
        help='Written when the server is ready, removed when it stops: {"address": ..., "pid": ..., "version": ...}.',
        show_default=False,
    ),
]
LogLevelOption: TypeAlias = Annotated[
    LogLevel, typer.Option(envvar="MONOPATH_LOG_LEVEL", help="What is logged on stderr.")
]
