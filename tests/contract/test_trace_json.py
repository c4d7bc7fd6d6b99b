"""Streams recorded by clients in other languages reach the grammar checker unchanged."""

from __future__ import annotations

import json

import pytest
from google.protobuf import json_format

from tests.contract.scripts import CPU, LOCAL, good_script
from tests.support.grammar import FromClient, FromServer, HalfClose, Rule, Status
from tests.support.options import SERVICE, method_path
from tests.support.trace_json import read_trace


def _recorded(path: int, *, code: str = "OK") -> list[str]:
    method = next(method.name for method in SERVICE.methods if method_path(method) == path)
    documents: list[dict[str, object]] = [{"method": method}]
    for event in good_script(path):
        match event:
            case FromClient(message):
                documents.append({"sent": json_format.MessageToDict(message)})
            case FromServer(message):
                documents.append({"received": json_format.MessageToDict(message)})
            case HalfClose():
                documents.append({"half_closed": True})
            case Status():
                documents.append({"ended": code})
    return [json.dumps(document) for document in documents]


@pytest.mark.parametrize("path", [CPU, LOCAL])
def test_a_recorded_stream_is_the_stream_that_it_was(path: int) -> None:
    trace = read_trace(_recorded(path))
    assert trace.events == good_script(path)
    trace.check()


def test_a_recorded_status_is_checked() -> None:
    rules = {violation.rule for violation in read_trace(_recorded(CPU, code="INVALID_ARGUMENT")).violations()}
    assert rules == {Rule.STATUS_MATCHES}


@pytest.mark.parametrize("lines", [[], ['{"method": "Stream"}'], ['{"method": "StreamLocal"}', '{"read": {}}']])
def test_a_line_that_says_nothing_is_refused(lines: list[str]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        read_trace(lines)
