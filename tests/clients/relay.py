"""A TCP relay on the loopback that a test can cut or freeze."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from tests.clients.fake_server import Gate

__all__ = ["relay"]


@contextlib.contextmanager
def relay(
    address: str,
    *,
    cut_after: Gate | None = None,
    freeze_after: Gate | None = None,
    freeze_after_count: int = 0,
    until: Gate | None = None,
) -> Iterator[str]:
    """Relay one connection to `address` while the block runs, and yield the relay's own address.

    Once `cut_after` opens both ends are shut. Once `freeze_after` opens, and the client has written as often as
    `freeze_after_count` since then, nothing is forwarded until `until` opens.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        relayed_address = f"127.0.0.1:{listener.getsockname()[1]}"
        one = _Relay(listener, address, cut_after, freeze_after, freeze_after_count, until)
        one.start()
        try:
            yield relayed_address
        finally:
            one.join()


class _Relay:
    def __init__(
        self,
        listener: socket.socket,
        address: str,
        cut_after: Gate | None,
        freeze_after: Gate | None,
        freeze_after_count: int,
        until: Gate | None,
    ) -> None:
        host, port = address.split(":")
        self._listener = listener
        self._address = (host, int(port))
        self._cut_after = cut_after
        self._freeze_after = freeze_after
        self._left_before_freeze = freeze_after_count
        self._until = until
        self._threads = [threading.Thread(target=self._run)]

    def start(self) -> None:
        self._threads[0].start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def _run(self) -> None:
        client = self._listener.accept()[0]
        # Whoever comes again is refused, and does not wait in the backlog.
        self._listener.close()
        with client, socket.create_connection(self._address) as server:
            pipes = [
                threading.Thread(target=self._pipe, args=ends)
                for ends in ((client, server, True), (server, client, False))
            ]
            self._threads.extend(pipes)
            for pipe in pipes:
                pipe.start()
            if self._cut_after is not None:
                self._cut_after.wait()
                for end in (client, server):
                    # The other end's pipe may have been faster.
                    with contextlib.suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
            for pipe in pipes:
                pipe.join(60)

    def _pipe(self, source: socket.socket, target: socket.socket, from_client: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if self._freeze_after is not None and self._freeze_after.is_open() and self._until is not None:
                    if self._left_before_freeze <= 0:
                        self._until.wait()
                    self._left_before_freeze -= from_client
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
