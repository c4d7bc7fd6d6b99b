"""The HTTP port for operators: `/metrics`, `/readyz`, `/livez`, in threads of its own, for when a server is busy."""

from __future__ import annotations

import logging
import socket
import socketserver
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

__all__ = ["Endpoints"]

SILENT_SECONDS = 10.0
"""How long a connection may send nothing."""
POLL_SECONDS = 0.1
"""How often the thread looks whether it is to end."""
logger = logging.getLogger(__name__)


class Endpoints:
    """Serves from its making until `close`."""

    def __init__(self, address: str, registry: CollectorRegistry, is_ready: Callable[[], bool]) -> None:
        """Listen at `address`, `host:port`.

        Raises:
            OSError: it cannot be listened at.
        """
        self._metrics = make_wsgi_app(registry)
        self._is_ready = is_ready
        host, _, port = address.rpartition(":")
        self._server = _Server(host.strip("[]"), int(port), self._answer)
        self.address = f"{host}:{self._server.server_port}"
        """Where it listens, with the port that was chosen."""
        self._thread = threading.Thread(
            target=lambda: self._server.serve_forever(POLL_SECONDS), name="monopath-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop. Takes a moment; not for the event loop."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            try:
                answer: Iterable[bytes] = self._metrics(environ, start_response)
                return answer
            except Exception as error:
                logger.error("The metrics could not be read", exc_info=error)
                status, text = "500 Internal Server Error", "The server's log has the details"
        elif path == "/livez":
            status, text = "200 OK", "alive"
        elif path == "/readyz":
            status, text = ("200 OK", "ready") if self._is_ready() else ("503 Service Unavailable", "not ready")
        else:
            status, text = "404 Not Found", "Expected /metrics, /readyz or /livez"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")])
        return [f"{text}\n".encode()]


class _Handler(WSGIRequestHandler):
    """Logs no requests, and drops who sends nothing."""

    timeout = SILENT_SECONDS

    def log_message(self, format: str, *_args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing."""


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, host: str, port: int, application: Callable[..., Iterable[bytes]]) -> None:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        super().__init__((host, port), _Handler)
        self.set_app(application)

    def server_bind(self) -> None:
        # The base class asks DNS for the name of the host, which can take as long as DNS does.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()[:2]
        self.setup_environ()

    def handle_error(self, _request: object, _client_address: object) -> None:
        """A client that goes away is no error of the server."""
