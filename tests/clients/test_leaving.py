"""Nothing is left behind, however a stream is left: no thread, no task, no open call, no hang."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest

from monopath import AsyncClient, Client, StreamClosed
from tests.clients.drivers import ARGUMENTS
from tests.clients.fake_server import Servicer, answering, holding, serving


def _own_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread is not threading.current_thread()}


def _wait_until_ended(threads: set[threading.Thread]) -> None:
    for thread in threads:
        thread.join(30)
    assert not [thread for thread in threads if thread.is_alive()]


def _leave_by_break(address: str) -> None:
    with Client(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
        for _result in stream.map([b"a"] * 8):
            break


def _leave_by_error(address: str) -> None:
    with pytest.raises(ZeroDivisionError), Client(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
        for _result in stream.map([b"a"] * 8):
            _ = 1 / 0


def _leave_with_items_in_flight(address: str) -> None:
    with Client(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
        stream.send(b"a")


def _leave_by_closing_the_client(address: str) -> None:
    client = Client(address)
    stream = client.deferred_cpu(**ARGUMENTS).__enter__()
    stream.send(b"a")
    client.close()
    with pytest.raises(StreamClosed):
        stream.send(b"a")


LEAVERS = [_leave_by_break, _leave_by_error, _leave_with_items_in_flight, _leave_by_closing_the_client]


@pytest.mark.parametrize("leave", LEAVERS)
def test_no_thread_and_no_call_is_left_behind(leave: Any) -> None:
    servicer = Servicer(answering())
    with serving(servicer) as address:
        before = _own_threads()
        leave(address)
        servicer.ended.get(timeout=30)
        # The server's own worker threads stay; the client's are those of gRPC's request iterators and channel.
        _wait_until_ended({thread for thread in _own_threads() - before if "ThreadPool" not in thread.name})


def test_another_thread_that_waits_is_told_that_the_stream_was_closed() -> None:
    caught: list[BaseException] = []
    with (
        serving(Servicer(holding())) as address,
        Client(address) as client,
        client.deferred_cpu(**ARGUMENTS) as stream,
    ):
        stream.send(b"a")
        next(stream.events())

        def read() -> None:
            try:
                list(stream.events())
            except StreamClosed as error:
                caught.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        stream.close()
        reader.join(30)
        assert not reader.is_alive()
    assert len(caught) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("how", ["break", "error", "cancel", "in flight", "client"])
async def test_no_task_and_no_call_is_left_behind(how: str) -> None:
    servicer = Servicer(holding() if how in ("cancel", "in flight", "client") else answering())

    async def leave() -> None:
        async with AsyncClient(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
            if how == "in flight":
                await stream.send(b"a")
                return
            if how == "client":
                await stream.send(b"a")
                await client.close()
                return
            async for _result in stream.map([b"a"] * 8):
                if how == "break":
                    break
                raise ZeroDivisionError

    with serving(servicer) as address:
        before = asyncio.all_tasks()
        task = asyncio.create_task(leave())
        if how == "cancel":
            while not servicer.metadata:
                await asyncio.sleep(0.001)
            task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        expected = {"error": ZeroDivisionError, "cancel": asyncio.CancelledError}.get(how, type(None))
        assert isinstance(outcome, expected)
        # One turn for the iterator that `break` left: asyncio closes it in a task of its own.
        await asyncio.sleep(0)
        await asyncio.to_thread(servicer.ended.get, True, 30)
        left = asyncio.all_tasks() - before
        await asyncio.wait_for(asyncio.gather(*left, return_exceptions=True), 5)
        assert not left or all(task.done() for task in left)


def test_ctrl_c_ends_a_waiting_map() -> None:
    program = textwrap.dedent(
        """
        import sys
        from monopath import Client
        try:
            with Client(sys.argv[1]) as client:
                with client.deferred_cpu(preset="kimi-k3", data_type="float32") as stream:
                    for result in stream.map([b"a"], on_plan=lambda plan: print("planned", flush=True)):
                        pass
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    servicer = Servicer(holding())
    with serving(servicer) as address:
        process = subprocess.Popen(
            [sys.executable, "-c", program, address],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        with process:
            assert process.stdout is not None
            assert process.stdout.readline() == "planned\n"
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=30)
        assert output == "interrupted\n"
        assert process.returncode == 0
        servicer.ended.get(timeout=30)
