"""How a server that was started by another process notices that this one is gone, however it went.

Its standard input is a pipe whose other end only the supervisor has; the kernel closes it with the supervisor.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import MutableMapping

__all__ = ["LIFELINE_VARIABLE", "follow_supervisor"]

LIFELINE_VARIABLE = "MONOPATH_LIFELINE"
"""Set by a supervisor for its children: the descriptor to watch."""


def follow_supervisor(environment: MutableMapping[str, str]) -> None:
    """Send this process SIGTERM when its supervisor is gone, if it has one. Takes the variable out of `environment`."""
    descriptor = environment.pop(LIFELINE_VARIABLE, None)
    if descriptor is not None:
        threading.Thread(target=_wait, args=(int(descriptor),), name="monopath-lifeline", daemon=True).start()


def _wait(descriptor: int) -> None:
    while os.read(descriptor, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
