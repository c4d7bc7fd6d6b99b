"""A conformance program that runs every vector well and answers something else, as its argument says."""

from __future__ import annotations

import base64
import copy
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.conformance.programs import stubs
from tests.conformance.programs.protocol import Answer, Job, serve

__all__ = ["ANSWERS", "MANNERS"]


def _another_code(answer: Answer) -> None:
    answer["status"]["code"] = "UNKNOWN"


def _another_reason(answer: Answer) -> None:
    answer["status"]["reason"] = "CONFIG_MISSING"


def _no_violations(answer: Answer) -> None:
    answer["status"]["violations"] = []


def _no_summary(answer: Answer) -> None:
    answer["responses"] = [response for response in answer["responses"] if "summary" not in response]


def _no_features(answer: Answer) -> None:
    answer["responses"] = [response for response in answer["responses"] if "features" not in response]


def _another_byte(answer: Answer) -> None:
    for response in answer["responses"]:
        if "features" in response:
            data = bytearray(base64.b64decode(response["features"]["chunk"]["data"]))
            data[-1] ^= 1
            response["features"]["chunk"]["data"] = base64.b64encode(data).decode()


def _a_second_end(answer: Answer) -> None:
    ends = [response for response in answer["responses"] if "completion" in response]
    answer["responses"][-1:-1] = copy.deepcopy(ends[:1])


def _another_plan(answer: Answer) -> None:
    for response in answer["responses"]:
        if "plan" in response:
            response["plan"]["plan"]["tokenCount"] += 1


def _another_label(answer: Answer) -> None:
    for response in answer["responses"]:
        if "completion" in response:
            response["completion"]["label"] += "!"


def _a_field_that_is_none(answer: Answer) -> None:
    answer["responses"][0]["novel"] = {}


def _no_domain(answer: Answer) -> None:
    del answer["status"]["domain"]


def _another_name(answer: Answer) -> None:
    answer["name"] = "another"


def _no_reason_for_skipping(answer: Answer) -> None:
    answer.clear()
    answer["skipped"] = ""


ANSWERS: dict[str, Callable[[Answer], None]] = {
    lie.__name__.removeprefix("_"): lie
    for lie in (
        _another_code,
        _another_reason,
        _no_violations,
        _no_summary,
        _no_features,
        _another_byte,
        _a_second_end,
        _another_plan,
        _another_label,
        _a_field_that_is_none,
        _no_domain,
        _another_name,
        _no_reason_for_skipping,
    )
}
"""Lies in an answer; `another_name` and others break the protocol."""
MANNERS = ("no_json", "silence", "death", "a_line_too_many", "a_bad_end")
"""Other ways in which a program does not do as it should."""


def _misbehave(manner: str) -> None:
    match manner:
        case "no_json":
            sys.stdout.write("Running...\n")
        case "silence":
            time.sleep(600.0)  # the runner kills it long before
        case "death":
            sys.stderr.write("It was the liar\n")
            sys.stderr.flush()
            os._exit(3)
        case "a_line_too_many":
            sys.stdout.write("{}\n")
        case _:
            raise ValueError(f"Expected one of {MANNERS}, got {manner}")


def main(lie: str) -> None:
    """Answer jobs until the end of the input."""

    def run(address: str, vector: Job) -> Answer:
        answer: dict[str, Any] = stubs.run(address, vector)
        if lie in ANSWERS:
            ANSWERS[lie](answer)
        elif lie in MANNERS[:-2]:
            _misbehave(lie)
        return answer

    serve(run)
    if lie == "a_line_too_many":
        _misbehave(lie)
    if lie == "a_bad_end":
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
