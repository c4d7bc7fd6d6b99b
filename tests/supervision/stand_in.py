"""Stands in for `monopath serve` under a supervisor. Arguments: a folder, an index, a manner, an address.

Manners: "serve" until SIGTERM; "die" once ready; "refuse" to start; "stay", whatever SIGTERM says.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from monopath_server.supervision.lifeline import follow_supervisor


def main() -> None:
    """Play the part."""
    folder, index, manner, address = sys.argv[1:]
    with Path(folder, f"starts.{index}").open("a") as starts:
        starts.write(f"{os.getpid()} {address}\n")
    if manner == "refuse":
        sys.exit(2)
    asked_to_end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: None if manner == "stay" else asked_to_end.set())
    follow_supervisor(os.environ)
    port = address.replace(":0", f":{1000 + int(index)}")
    sys.stdout.write(f"something else\nstand-in is ready at {port}\n")
    sys.stdout.flush()
    if manner == "die":
        sys.exit(3)
    asked_to_end.wait()
    Path(folder, f"ended.{index}").touch()


if __name__ == "__main__":
    main()
