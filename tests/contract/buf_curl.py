"""Runs a vector through `buf curl`: a gRPC client that shares no code with ours, from the committed schema image."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message
from google.rpc import error_details_pb2

from tests.contract.buf import BUF
from tests.contract.programs import run_program
from tests.contract.vector_cases import Vector
from tests.contract.vector_matching import Outcome, parse_response
from tests.support.options import BASELINE, SERVICE

__all__ = ["run_vector_with_buf"]


def run_vector_with_buf(vector: Vector, address: str) -> Outcome:
    """Sends the vector's requests as JSON. It writes all of them without waiting, and half-closes.

    Raises:
        ValueError: The vector has requests that JSON cannot say.
    """
    if not vector.is_json:
        raise ValueError(f"Expected requests in JSON, got bytes in {vector.name}")
    result = run_program(
        [
            BUF,
            "curl",
            "--schema",
            BASELINE,
            "--protocol",
            "grpc",
            "--http2-prior-knowledge",
            "--emit-defaults",
            "--timeout",
            "60s",
            "--data",
            "@-",
            f"http://{address}/{SERVICE.full_name}/{vector.method}",
        ],
        stdin="\n".join(json.dumps(request) for request in vector.requests),
    )
    responses = tuple(parse_response(vector, document) for document in _documents(result.stdout))
    if result.returncode == 0:
        return Outcome(responses, "OK", "", "", "", ())
    (error,) = _documents(result.stderr)
    return _refused(responses, error)


def _refused(responses: tuple[Message, ...], error: dict[str, Any]) -> Outcome:
    info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    details: dict[str, Message] = {message.DESCRIPTOR.full_name: message for message in (info, bad_request)}
    for detail in error.get("details", []):
        if detail["type"] in details:
            # Base64 without padding, as the Connect protocol writes it.
            details[detail["type"]].ParseFromString(base64.b64decode(detail["value"] + "=="))
    return Outcome(
        responses=responses,
        code=error["code"].upper(),
        message=error.get("message", ""),
        reason=info.reason,
        domain=info.domain,
        violations=tuple((found.field, found.description) for found in bad_request.field_violations),
    )


def _documents(text: str) -> Iterator[dict[str, Any]]:
    """JSON documents one after the other, as `buf curl` prints them."""
    decoder = json.JSONDecoder()
    position = 0
    while position < len(text.rstrip()):
        start = position + len(text[position:]) - len(text[position:].lstrip())
        document, position = decoder.raw_decode(text, start)
        yield document
