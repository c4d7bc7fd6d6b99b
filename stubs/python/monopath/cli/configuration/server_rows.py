"""Settings of the server as a whole: where it listens, what it logs, how it ends."""

from __future__ import annotations

import enum
from typing import Final

from monopath.cli.configuration.kinds import Choice, Names, Number, Seconds
from monopath.cli.configuration.places import Address, NewFile, PresetFiles
from monopath.cli.configuration.setting import Group, Setting
from monopath_server.settings import DeviceMode

__all__ = ["SERVER_ROWS", "LogLevel"]


class LogLevel(enum.StrEnum):
    """From which level on the log on stderr has an entry."""

    DEBUG = enum.auto()
    INFO = enum.auto()
    WARNING = enum.auto()
    ERROR = enum.auto()


SERVER_ROWS: Final = (
    Setting(
        "address",
        Address(),
        "Where to listen: host:port (port 0: any free one) or unix:/path. Beyond this host it takes TLS, or "
        "--insecure.",
        Group.SERVER,
        sets="address",
    ),
    Setting(
        "workers",
        Number("THREADS", high=4096),
        "Threads that decode and transform; with several processes, of each.",
        Group.SERVER,
        sets="worker_count",
        default_text="one for each CPU",
    ),
    Setting(
        "preset",
        PresetFiles(),
        "Have the preprocessor_config.json FILE under NAME, besides those of the families. May be given many times "
        "(in the environment: separated by spaces). A file with wrong keys ends the start with exit code 2 and the "
        "list of them.",
        Group.SERVER,
        key="presets",
        default=(),
        default_text="none, besides those of the families",
    ),
    Setting(
        "cuda",
        Choice(DeviceMode),
        "Where the path DEFERRED_CUDA makes features. auto: on CUDA devices, if any; required: the same, and without "
        "any the server does not start; off: nowhere, and CUDA is not looked for; interpreter: on the CPU, very "
        "slowly, for tests.",
        Group.SERVER,
        sets="cuda",
    ),
    Setting(
        "ready_file",
        NewFile(),
        'Written when the server is ready, removed when it stops: {"address": ..., "pid": ..., "version": ...}; with '
        'several processes also "processes", with address and pid of each.',
        Group.SERVER,
    ),
    Setting(
        "log_level",
        Choice(LogLevel),
        "What is logged on stderr.",
        Group.SERVER,
        default=LogLevel.WARNING,
    ),
    Setting(
        "processes",
        Number("PROCESSES", high=256),
        "Run so many processes, each with a server, a port (the next ones after the address's) or a socket (/x.sock: "
        "/x.0.sock, /x.1.sock) of its own. All limits and sizes are those of each process.",
        Group.PROCESSES,
        default=1,
    ),
    Setting(
        "devices",
        Names("DEVICE,..."),
        "Run a process for each of these CUDA devices, which sees no other: cuda:0,cuda:1, UUIDs as nvidia-smi prints "
        "them, or all.",
        Group.PROCESSES,
        default=(),
        default_text="all, in one process",
    ),
    Setting(
        "grace",
        Seconds(),
        "How long a stopping server waits for accepted items and for clients to half-close.",
        Group.STOPPING,
        sets="grace_seconds",
    ),
    Setting(
        "lame_duck",
        Seconds(),
        "How long a stopping server goes on taking streams after its health is NOT_SERVING, for balancers to notice.",
        Group.STOPPING,
        sets="lame_duck_seconds",
    ),
)
"""In the order in which they are listed."""
