"""How these processes call each other: gRPC, with messages that they pack themselves. There is no generated code."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeAlias

import grpc
import grpc.aio

from examples.encoder.faults import ConfigDiffers, Refused, Unavailable
from examples.encoder.messages import Kind, Reply, Request, pack_request
from examples.encoder.sources import Source, SourceT_co

__all__ = ["RECONNECT_OPTIONS", "Handler", "Methods", "Peer", "serve"]

Handler: TypeAlias = Callable[[bytes], Awaitable[bytes]]
Methods: TypeAlias = Mapping[str, Handler]
"""What a process can be asked, by the names of the methods."""

RECONNECT_OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
"""Of channels to processes of the same deployment: one that was started anew is to be found at once."""

_log = logging.getLogger(__name__)
_GRACE_SECONDS = 10.0
_SERVICE = "monopath.examples.Encoder"
_MAX_MESSAGE_BYTES = 512 << 20
_MESSAGE_OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
)
_LOST = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
)
"""What a call ends with whose process was killed, or stopped before it had answered."""


class Peer:
    """Another process that encodes. Use it in an `async with` statement."""

    def __init__(self, address: str) -> None:
        """`address` is a gRPC name: "host:port", "unix:/path". Nothing is sent yet."""
        self._channel = grpc.aio.insecure_channel(address, options=[*RECONNECT_OPTIONS, *_MESSAGE_OPTIONS])

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        await self._channel.close()

    async def encode(self, kind: Kind[SourceT_co], request: Request[Source[object]]) -> Reply:
        """Have a whole request encoded.

        Raises Unavailable where the process is gone or says so, ConfigDiffers for features of another config, and
        Refused for what it will never encode.
        """
        return await self._call(kind.method, request)

    async def encode_share(self, kind: Kind[SourceT_co], share: Request[Source[object]]) -> Reply:
        """Have a rank's share encoded by that rank. Raises as `encode` does."""
        return await self._call(kind.share_method, share)

    async def _call(self, method: str, request: Request[Source[object]]) -> Reply:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(f"/{_SERVICE}/{method}")
        try:
            reply = await call(pack_request(request))
        except grpc.aio.AioRpcError as error:
            text = error.details() or error.code().name
            if error.code() in _LOST:
                raise Unavailable(text) from None
            raise (ConfigDiffers if error.code() is grpc.StatusCode.ABORTED else Refused)(text) from None
        return Reply.unpacked(reply)


async def serve(address: str, methods: Methods, name: str) -> None:
    """Serve these methods until SIGTERM or Ctrl-C, and answer what was taken by then.

    Writes a line that begins with `name` when it is ready. Raises RuntimeError where it cannot listen.
    """
    server = grpc.aio.server(options=list(_MESSAGE_OPTIONS))
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        method: grpc.unary_unary_rpc_method_handler(_with_status(handle)) for method, handle in methods.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    server.add_insecure_port(address)
    await server.start()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    print(f"{name} is ready at {address}", flush=True)  # noqa: T201 - who started it reads this
    await stop.wait()
    await server.stop(_GRACE_SECONDS)


def _with_status(handler: Handler) -> Callable[[bytes, grpc.aio.ServicerContext[bytes, bytes]], Awaitable[bytes]]:
    """Return the handler with its faults as gRPC statuses: the one place where they become those."""

    async def handle(message: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        try:
            return await handler(message)
        except Unavailable as fault:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(fault))
        except ConfigDiffers as fault:
            await context.abort(grpc.StatusCode.ABORTED, str(fault))
        except Refused as fault:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(fault))
        except Exception:
            _log.exception("A request failed")
            await context.abort(grpc.StatusCode.INTERNAL, "The encoder failed; its log says why")

    return handle
