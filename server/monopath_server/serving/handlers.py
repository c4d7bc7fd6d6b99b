"""How the service's methods hang in a gRPC server.

As the generated code hangs them, but for one thing: a response may also be bytes, serialised already (`serving.wire`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from monopath.v1 import service_pb2, service_pb2_grpc
from monopath_server.serving.groups import serialized

__all__ = ["preprocessing_handlers"]


def preprocessing_handlers(servicer: service_pb2_grpc.PreprocessingServiceServicer) -> grpc.GenericRpcHandler:
    """The handlers of every method of the contract."""
    service = service_pb2.DESCRIPTOR.services_by_name["PreprocessingService"]
    handlers = {}
    for method in service.methods:
        make: Callable[..., Any] = (
            grpc.stream_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        )
        handlers[method.name] = make(
            getattr(servicer, method.name),
            request_deserializer=getattr(service_pb2, method.input_type.name).FromString,
            response_serializer=serialized,
        )
    return grpc.method_handlers_generic_handler(service.full_name, handlers)
