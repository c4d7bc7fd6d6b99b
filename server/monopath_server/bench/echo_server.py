"""The least that a gRPC server does: read an image, answer with as many bytes as its features would have.

It has nothing of ours in it, so it is what the transport alone takes. Run as a process: `python -m ... ADDRESS`.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc

from monopath_server import event_loop

__all__ = ["CHUNK_BYTES", "HEADER_BYTES", "METHOD", "OPTIONS"]

METHOD = "/monopath.bench.Echo/Echo"
HEADER_BYTES = 8
"""Of a request, before the image: how many bytes to answer with, most significant first."""
CHUNK_BYTES = 1 << 20
OPTIONS = [("grpc.max_receive_message_length", 128 << 20), ("grpc.max_send_message_length", 128 << 20)]

_CHUNK = bytes(CHUNK_BYTES)


async def _echo(requests: AsyncIterator[bytes], _context: object) -> AsyncIterator[bytes]:
    async for request in requests:
        missing_bytes = int.from_bytes(request[:HEADER_BYTES], "big")
        while missing_bytes > 0:
            chunk = _CHUNK[:missing_bytes]
            missing_bytes -= len(chunk)
            yield chunk


class _Handlers(grpc.GenericRpcHandler):
    def service(self, handler_call_details: Any) -> Any:
        # Without serialisers messages are bytes.
        return grpc.stream_stream_rpc_method_handler(_echo) if handler_call_details.method == METHOD else None


async def _serve(address: str) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((_Handlers(),))
    server.add_insecure_port(address)
    await server.start()
    sys.stdout.write(f"echo is ready at {address}\n")
    sys.stdout.flush()
    await stopped.wait()
    await server.stop(0)


if __name__ == "__main__":
    event_loop.run(_serve(sys.argv[1]))
