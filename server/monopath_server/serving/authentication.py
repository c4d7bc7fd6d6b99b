"""Calls without a token that the server knows are refused, before anything of their requests is read."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from grpc_health.v1 import health
from grpc_status import rpc_status

from monopath_server.faults import StreamFault, StreamReason
from monopath_server.security.tokens import Tokens, bearer_token
from monopath_server.serving.status import status_of

__all__ = ["TokenInterceptor"]

OPEN_METHODS = f"/{health.SERVICE_NAME}/"
"""What balancers and probes ask, which have no token."""
logger = logging.getLogger(__name__)


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Lets calls with a known bearer token through, and those for health."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens
        self.refused_count = 0
        """Calls that were not let through."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Return the method's own handler, or one that refuses the call."""
        if handler_call_details.method.startswith(OPEN_METHODS):
            return await continuation(handler_call_details)
        token = bearer_token(handler_call_details.invocation_metadata)
        if token is not None and self._tokens.knows(token):
            return await continuation(handler_call_details)
        self.refused_count += 1
        logger.info("Refused %s: %s", handler_call_details.method, "no token" if token is None else "unknown token")
        return _REFUSAL


async def _refuse(_requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[Any, Any]) -> None:
    fault = StreamFault(
        StreamReason.CREDENTIALS_INVALID, "Expected a bearer token that this server knows, got none or another one"
    )
    status = rpc_status.to_status(status_of(fault))
    await context.abort(status.code, status.details, status.trailing_metadata)


# For unary methods too: as a stream's handler it is called before a request is read, however large that is, and on the
# wire there is no difference.
_REFUSAL: grpc.RpcMethodHandler[Any, Any] = grpc.stream_stream_rpc_method_handler(_refuse)
