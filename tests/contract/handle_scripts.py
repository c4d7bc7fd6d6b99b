"""Streams over shared memory for tests of the grammar checker: good ones, and what can be wrong with their handles."""

from __future__ import annotations

from typing import Any

from monopath.v1 import error_pb2
from tests.contract.scripts import (
    CPU,
    CUDA,
    changed,
    good_script,
    index_of,
    inserted,
    moved,
    request,
    response,
    setting,
    without,
)
from tests.support.grammar import Event, FromClient, FromServer, Rule

__all__ = ["BROKEN_BY_CLIENT", "BROKEN_BY_SERVER", "handle_script", "with_handle"]

_SIZE_BYTES = 588


def with_handle(script: list[Event], path: int, item_id: int, **changes: Any) -> list[Event]:
    """The script with one handle in place of an item's chunks."""
    fields = {"name": f"monopath-{item_id}", "offset_bytes": 4096, "length_bytes": _SIZE_BYTES, "generation": item_id}
    handle = response(path, "features", id=item_id, shared_memory={**fields, **changes})
    index = index_of(script, FromServer, "features", item_id)
    return inserted(without(script, FromServer, "features", item_id), index, handle)


def handle_script(path: int) -> list[Event]:
    """A good stream over shared memory: item 1 came by a handle and was released, for item 2 there was no room."""
    script = changed(good_script(path), FromClient, "config", lambda config: config.output.shared_memory.SetInParent())
    return with_handle(changed(script, FromServer, "summary", setting(fallback_count=1)), path, 1)


_GOOD = handle_script(CPU)
_HANDLE = index_of(_GOOD, FromServer, "features", 1)
_PLAN_1 = index_of(_GOOD, FromServer, "plan", 1)
_CHUNK_OF_ITEM_2 = index_of(_GOOD, FromServer, "features", 2)


def _summed(script: list[Event], **fields: Any) -> list[Event]:
    """The script with a summary that fits it, so that only the other rule is broken."""
    return changed(script, FromServer, "summary", setting(**fields))


def _handle(**changes: Any) -> list[Event]:
    return with_handle(_GOOD, CPU, 1, **changes)


def _of_server() -> list[tuple[Rule, str, list[Event]]]:
    chunk = response(CPU, "features", id=1, chunk={"offset_bytes": _SIZE_BYTES, "data": b"x"})
    handle_2 = response(
        CPU, "features", id=2, shared_memory={"name": "monopath-2", "length_bytes": _SIZE_BYTES, "generation": 2}
    )
    return [
        (
            Rule.LOCATION,
            "two handles of one item",
            _summed(inserted(_GOOD, _HANDLE, _GOOD[_HANDLE]), sent_bytes=3 * _SIZE_BYTES),
        ),
        (
            Rule.LOCATION,
            "a handle on an inline stream",
            with_handle(good_script(CPU), CPU, 1),
        ),
        (
            Rule.LOCATION,
            "a handle behind a chunk",
            _summed(inserted(_GOOD, _CHUNK_OF_ITEM_2 + 2, handle_2), sent_bytes=3 * _SIZE_BYTES),
        ),
        (Rule.LOCATION, "features that are nowhere", inserted(_GOOD, _HANDLE + 1, response(CPU, "features", id=1))),
        (Rule.HANDLE, "a handle to fewer bytes than the plan's", _short_handle()),
        (
            Rule.HANDLE,
            "a handle to more bytes than the plan's",
            _summed(_handle(length_bytes=_SIZE_BYTES + 1), sent_bytes=2 * _SIZE_BYTES + 1),
        ),
        (Rule.HANDLE, "a handle without a name", _handle(name="")),
        (Rule.HANDLE, "a handle without a generation", _handle(generation=0)),
        (Rule.PLAN_FIRST, "a handle before the plan", _before_plan()),
        (Rule.ITEM_OVER, "a handle after the completion", inserted(_GOOD, _HANDLE + 2, _GOOD[_HANDLE])),
        (Rule.SUMMARY_SUMS, "items in chunks that nobody counted", _summed(_GOOD, fallback_count=0)),
        (Rule.SUMMARY_SUMS, "items by handle that were counted as chunks", _summed(_GOOD, fallback_count=2)),
        (
            Rule.SUMMARY_SUMS,
            "a fallback on an inline stream",
            _summed(good_script(CPU), fallback_count=1),
        ),
        (Rule.LOCATION, "a chunk behind a handle", _summed(inserted(_GOOD, _HANDLE + 1, chunk), sent_bytes=1177)),
    ]


def _short_handle() -> list[Event]:
    script = _handle(length_bytes=_SIZE_BYTES - 1)
    error = response(CPU, "error", id=1, label="first", reason=error_pb2.ITEM_ERROR_REASON_INTERNAL)
    script[index_of(script, FromServer, "completion", 1)] = error
    return _summed(script, sent_bytes=2 * _SIZE_BYTES - 1, completed_count=1, failed_count=2)


def _on_gpu() -> list[Event]:
    script = with_handle(handle_script(CUDA), CUDA, 1)
    memory = {"memory_handle": b"m", "length_bytes": _SIZE_BYTES, "generation": 1}
    script[_HANDLE] = response(CUDA, "features", id=1, cuda_ipc=memory)
    return script


def _late_release() -> list[Event]:
    return moved(_GOOD, index_of(_GOOD, FromClient, "release"), index_of(_GOOD, FromServer, "completion", 2))


def _before_plan() -> list[Event]:
    return _summed(inserted(_GOOD, _PLAN_1, _GOOD[_HANDLE]), sent_bytes=2 * _SIZE_BYTES)


BROKEN_BY_SERVER = [
    *((rule, sentence, script, CPU) for rule, sentence, script in _of_server()),
    (Rule.LOCATION, "a handle of a GPU's memory on a stream over shared memory", _on_gpu(), CUDA),
]
BROKEN_BY_CLIENT: list[tuple[Rule, str, list[Event], int]] = [
    (
        Rule.ID_KNOWN,
        "a release of an item that was not sent yet",
        inserted(_GOOD, 2, request(CPU, "release", id=1)),
        CPU,
    ),
    (Rule.CLIENT_CLOSED, "a release after the half-close", _late_release(), CPU),
]
