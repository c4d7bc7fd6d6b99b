"""One place that carries streams of the server, one after another, on a sync channel."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic

import grpc

from monopath._core import StreamCore
from monopath._errors import CallError, ConnectionFailed, ProtocolError, StreamClosed
from monopath._messages import AnyRequest, InputT
from monopath._paths import PathT
from monopath._reading import Received
from monopath._sync_call import StartSyncCall, SyncCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Link"]


class Link(Generic[PathT, InputT]):
    """A stream's state and its call. `changed` guards both, and may guard other links' too."""

    def __init__(self, core: StreamCore[PathT, InputT], start: StartSyncCall, changed: threading.Condition) -> None:
        self.core = core
        self.changed = changed
        self.stopped = False
        """Nothing is to be opened any more. Guarded by `changed`."""
        self._start = start
        self._call: SyncCall | None = None
        self._reading = False

    def sibling(self, changed: threading.Condition | None = None) -> Link[PathT, InputT]:
        """Return one more link of the same kind, guarded by `changed`. None: by the same condition."""
        return Link(self.core.sibling(), self._start, self.changed if changed is None else changed)

    def open(self) -> None:
        """Begin a stream and wait for its `ready`; where the server asks to move before that, begin another one."""
        opened = False
        while not opened:
            with self.changed:
                if self.stopped:
                    raise StreamClosed("Expected an open stream, got one that was closed")
                config = self.core.begin_stream()
                if self._call is not None:
                    # One that was lost has ended, but for the thread that waits for its requests.
                    self._call.cancel()
                self._call = SyncCall(self._start, timeout_seconds=self.core.timeout_seconds())
                self.core.attach(self._call.write_anytime)
                self._call.write((config,))
            self.advance(self.core.has_opened)
            opened = self.core.check_opened()
            if not opened:
                self.advance(self.core.has_ended)

    def write(self, requests: Iterable[AnyRequest]) -> None:
        """Send requests, if there is a stream. Never blocks. With the lock held."""
        if self._call is not None:
            self._call.write(requests)

    def half_close(self) -> None:
        """Tell the server that nothing more comes."""
        with self.changed:
            self.core.half_closed = True
            if self._call is not None:
                self._call.half_close()

    def cancel(self) -> None:
        """End the stream now, and open no other one."""
        with self.changed:
            self.stopped = True
            if self._call is not None:
                self._call.cancel()
            self.changed.notify_all()

    def close(self) -> None:
        """End the stream now, for good. Harmless where it has ended."""
        with self.changed:
            self.core.close()
            self.cancel()

    def advance(self, satisfied: Callable[[], bool]) -> None:
        """Read until `satisfied`. Of several threads that wait, one reads for all. Without the lock held."""
        with self.changed:
            while not satisfied():
                if self._reading:
                    self.changed.wait()
                else:
                    self.core.check_readable()
                    self._read_one()

    def finish(self) -> None:
        """Half-close, and wait for the stream's end."""
        self.half_close()
        self.advance(self.core.has_ended)

    def finish_within(self, grace_seconds: float) -> None:
        """Finish where every item has its result. Raises ProtocolError where the server does not end the stream."""
        call, late = self._call, threading.Event()
        assert call is not None

        def give_up() -> None:
            late.set()
            call.cancel()

        timer = threading.Timer(grace_seconds, give_up)
        timer.start()
        try:
            self.finish()
        except ConnectionFailed:
            # Every item has its result: a server that is gone by now has taken nothing with it.
            pass
        except CallError as error:
            if not late.is_set():
                raise
            raise ProtocolError(f"Expected the stream's end within {grace_seconds} s, got none") from error
        finally:
            timer.cancel()
            timer.join()

    def _read_one(self) -> None:
        """Read one response into the core, which keeps what the stream ended with. The lock is free meanwhile."""
        assert self._call is not None
        call = self._call
        self._reading = True
        self.changed.release()
        status: grpc.RpcError | None = None
        response: Received | None = None
        try:
            response = call.read()
        except grpc.RpcError as error:
            status = error
        finally:
            self.changed.acquire()
            self._reading = False
            self.changed.notify_all()
        if status is not None:
            self.core.receive_status(status)
        elif response is None:
            self.core.receive_end()
        else:
            call.obey(self.core.receive(response))
