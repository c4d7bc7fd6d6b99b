"""Conformance program: the typed client `monopath.Client`. Its argument says how features travel: `inline`."""

from __future__ import annotations

import functools
import sys
from typing import Any

from monopath import CallError, Client
from tests.conformance.programs import typed_answers, wire
from tests.conformance.programs.protocol import TIMEOUT_SECONDS, Answer, Job, serve
from tests.conformance.programs.typed_script import (
    StreamScript,
    check_capabilities,
    plan_script,
    refusals_of_client,
    stream_script,
)


def run(address: str, vector: Job, transport: str = "inline") -> Answer:
    """Run one vector with a client of its own."""
    with Client(address) as client:
        if wire.is_stream(vector):
            return _run_stream(client, stream_script(vector, transport), typed_answers.StreamAnswers(vector))
        try:
            if vector["method"] == "GetCapabilities":
                check_capabilities(vector)
                told = client.capabilities(timeout_seconds=TIMEOUT_SECONDS)
                return typed_answers.unary_answer(typed_answers.capabilities_response(told))
            plan = plan_script(vector)
            reply = client.plan(plan.sizes, **plan.arguments, timeout_seconds=TIMEOUT_SECONDS)
            return typed_answers.unary_answer(typed_answers.plan_response(reply))
        except CallError as error:
            return typed_answers.unary_answer(None, error)


def _run_stream(client: Client, script: StreamScript, answers: typed_answers.StreamAnswers) -> Answer:
    opening: Any = getattr(client, script.opening)
    with refusals_of_client():
        unopened = opening(**script.arguments, timeout_seconds=TIMEOUT_SECONDS)
    try:
        with unopened as stream:
            answers.ready(stream.ready)
            for item in script.items:
                with refusals_of_client():
                    stream.send(item)
            for event in stream.events():
                answers.event(event)
            return answers.end(stream.finish())
    except CallError as error:
        return answers.failure(error)


if __name__ == "__main__":
    [transport_name] = sys.argv[1:]
    serve(functools.partial(run, transport=transport_name))
