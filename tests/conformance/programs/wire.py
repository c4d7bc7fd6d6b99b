"""From a vector's JSON to messages of the generated stubs, and from responses and a status back to JSON."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from monopath.v1 import service_pb2
from tests.conformance.programs.protocol import Answer, Job

__all__ = ["SERVICE", "answer", "is_stream", "is_wire", "method", "requests", "response_type", "status"]

SERVICE: ServiceDescriptor = service_pb2.DESCRIPTOR.services_by_name["PreprocessingService"]
_DETAILS = "grpc-status-details-bin"


def method(vector: Job) -> MethodDescriptor:
    """The vector's method."""
    return SERVICE.methods_by_name[vector["method"]]


def is_stream(vector: Job) -> bool:
    """Whether the method is a stream, in both directions, and not a unary call."""
    return bool(vector["method"].startswith("Stream"))


def is_wire(vector: Job) -> bool:
    """Whether a request is given as bytes, to be sent as they are."""
    return any("wire" in request for request in vector["requests"])


def response_type(vector: Job) -> type[Message]:
    """The class of the method's responses."""
    return message_factory.GetMessageClass(method(vector).output_type)


def requests(vector: Job) -> list[Message] | list[bytes]:
    """The requests in order: all of them messages, or all of them bytes where one is given as bytes."""
    request_type = message_factory.GetMessageClass(method(vector).input_type)
    if not is_wire(vector):
        return [json_format.ParseDict(request, request_type()) for request in vector["requests"]]
    return [
        base64.b64decode(request["wire"], validate=True)
        if "wire" in request
        else json_format.ParseDict(request, request_type()).SerializeToString()
        for request in vector["requests"]
    ]


def answer(responses: Iterable[Message], told_status: dict[str, Any]) -> Answer:
    """The answer to a job, with fields written even at their default value."""
    return {
        "responses": [
            json_format.MessageToDict(response, always_print_fields_with_no_presence=True) for response in responses
        ],
        "status": told_status,
    }


def status(code: str, message: str, trailing_metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, Any]:
    """The status of a call, with what its trailer says of it."""
    details = status_pb2.Status()
    for key, value in trailing_metadata:
        if key == _DETAILS and isinstance(value, bytes):
            details.ParseFromString(value)
    info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    for detail in details.details:
        for known in (info, bad_request):
            if detail.Is(known.DESCRIPTOR):
                detail.Unpack(known)
    return {
        "code": code,
        "message": message,
        "reason": info.reason,
        "domain": info.domain,
        "violations": [
            {"field": violation.field, "description": violation.description}
            for violation in bad_request.field_violations
        ],
    }
