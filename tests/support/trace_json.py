"""Reads what a client in another language recorded of a stream, for the grammar checker.

One JSON document a line, messages in protobuf JSON:

    {"method": "StreamDeferredCpu"}
    {"sent": {"config": {...}}}         before it is written
    {"received": {"ready": {...}}}
    {"half_closed": true}
    {"ended": "OK"}                     the status code's name
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import json_format, message_factory

from monopath.v1 import options_pb2
from tests.support.grammar import StreamTrace
from tests.support.options import SERVICE, method_path

__all__ = ["read_trace"]


def read_trace(lines: Iterable[str]) -> StreamTrace:
    """The recorded stream, to be checked with `StreamTrace.check`.

    Arms that this contract does not know are skipped, as a client skips them.

    Raises:
        ValueError: A line is none of the above.
    """
    documents: Iterator[dict[str, Any]] = (json.loads(line) for line in lines if line.strip())
    first = next(documents, {})
    method = SERVICE.methods_by_name.get(str(first.get("method")))
    if method is None:
        raise ValueError(f"Expected a first line that names the method, got {first}")
    request_type = message_factory.GetMessageClass(method.input_type)
    response_type = message_factory.GetMessageClass(method.output_type)
    trace = StreamTrace(method_path(method))
    for document in documents:
        match document:
            case {"sent": message}:
                trace.sent(json_format.ParseDict(message, request_type(), ignore_unknown_fields=True))
            case {"received": message}:
                trace.received(json_format.ParseDict(message, response_type(), ignore_unknown_fields=True))
            case {"half_closed": True}:
                trace.half_closed()
            case {"ended": str(name)}:
                trace.ended(_code(name))
            case _:
                raise ValueError(f"Expected sent, received, half_closed or ended, got {document}")
    return trace


def _code(name: str) -> int:
    return 0 if name == "OK" else int(options_pb2.GrpcCode.Value(f"GRPC_CODE_{name}"))
