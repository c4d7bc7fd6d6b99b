"""The loop of a conformance program: one JSON line in, one JSON line out, by the protocol in README.md."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

__all__ = ["TIMEOUT_SECONDS", "Answer", "CannotRun", "Job", "serve"]

TIMEOUT_SECONDS = 60.0
"""Bounds a job."""

Job: TypeAlias = dict[str, Any]
"""A vector, as it lies in its file, without what is expected of it."""
Answer: TypeAlias = dict[str, Any]
"""`responses`, a list of protobuf JSON, and `status`."""


class CannotRun(Exception):
    """This client cannot run the vector; the text says why."""


def serve(run: Callable[[str, Job], Answer]) -> None:
    """Answer jobs until the end of the input. `run` gets the server's address and the vector."""
    for line in sys.stdin:
        job = json.loads(line)
        vector = job["vector"]
        try:
            answer = run(job["address"], vector)
        except CannotRun as reason:
            answer = {"skipped": str(reason)}
        sys.stdout.write(json.dumps({"name": vector["name"], **answer}) + "\n")
        sys.stdout.flush()
