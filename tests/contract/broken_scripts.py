"""Streams that break one rule of the grammar each, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from monopath.v1 import error_pb2, tensor_pb2
from tests.contract.handle_scripts import BROKEN_BY_CLIENT, BROKEN_BY_SERVER
from tests.contract.scripts import (
    CPU,
    CUDA,
    LOCAL,
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
from tests.support.grammar import Event, FromClient, FromServer, HalfClose, Party, Rule, Status

__all__ = ["BROKEN", "BrokenScript", "failed_script", "grouped_script"]

_INVALID_ARGUMENT = 3
_INTERNAL = 13
_FLOAT16 = tensor_pb2.DATA_TYPE_FLOAT16
_OVERLOADED = error_pb2.ITEM_ERROR_REASON_OVERLOADED


@dataclass(frozen=True, slots=True)
class BrokenScript:
    """A whole stream in which one party breaks one rule."""

    rule: Rule
    party: Party
    sentence: str
    script: list[Event]
    path: int = CPU
    also: frozenset[Rule] = frozenset()
    """Rules that cannot but be broken with it."""


def failed_script(reason: int = error_pb2.STREAM_ERROR_REASON_ITEM_ID_INVALID) -> list[Event]:
    """A stream that the server breaks off, by the grammar: a failure on the way, every item ended, then the status."""
    events = without(good_script(CPU), FromServer, "summary")[:-1]
    failure = response(CPU, "failure", reason=reason)
    return [*inserted(events, index_of(events, FromServer, "goaway"), failure), Status(_INVALID_ARGUMENT)]


_GOOD = good_script(CPU)
_LOCAL = good_script(LOCAL)
_FAILED = failed_script()
_EMPTY = [*_GOOD[:2], HalfClose(), response(CPU, "summary"), Status(0)]
_FAILED_EMPTY: list[Event] = [
    *_GOOD[:2],
    response(CPU, "failure", reason=error_pb2.STREAM_ERROR_REASON_ITEM_ID_INVALID),
    HalfClose(),
    Status(_INVALID_ARGUMENT),
]
_HALF_CLOSE = _GOOD.index(HalfClose())
_FIRST_CHUNK = index_of(_GOOD, FromServer, "features", 1)
_SECOND_CHUNK = _FIRST_CHUNK + 1
_SECOND_OF_ITEM_2 = index_of(_GOOD, FromServer, "completion", 2) - 1


def _server(arm: str, item_id: int | None = None, /, **fields: Any) -> list[Event]:
    return changed(_GOOD, FromServer, arm, setting(**fields), item_id)


def _second_chunk(**fields: Any) -> list[Event]:
    rest = changed(_GOOD[_SECOND_CHUNK:], FromServer, "features", setting(**fields), 1)
    return [*_GOOD[:_SECOND_CHUNK], *rest]


def _summed(script: list[Event], **fields: Any) -> list[Event]:
    """The script with a summary that fits it, so that only the other rule is broken."""
    return changed(script, FromServer, "summary", setting(**fields))


def _unknown_payload() -> Event:
    empty: Any = request(CPU, "release", id=1).message
    empty.ClearField("release")
    return FromClient(empty)


def _other_shape() -> list[Event]:
    return changed(_GOOD, FromServer, "plan", lambda plan: plan.plan.features.shape.append(2))


def _failed_without_end() -> list[Event]:
    """Items 5 and 7 came behind the failure and need no end; item 2 was planned before it and does."""
    return without(without(_FAILED, FromServer, "completion", 2), FromServer, "error")


def _of_client() -> list[tuple[Rule, str, list[Event], int]]:
    local_close = _LOCAL.index(HalfClose())
    empty_chunk = request(LOCAL, "item_features", id=5, chunk={"offset_bytes": 588})
    return [
        (Rule.TYPE_OF_PATH, "a request of another path", inserted(_GOOD, 2, request(CUDA, "release", id=1)), CPU),
        (Rule.PAYLOAD_KNOWN, "a request without a payload", inserted(_GOOD, 2, _unknown_payload()), CPU),
        (Rule.CONFIG_FIRST, "an item before the config", moved(_GOOD, 2, 0), CPU),
        (Rule.CONFIG_ONCE, "a second config", inserted(_GOOD, 2, _GOOD[0]), CPU),
        (Rule.READY_AWAITED, "an item before ready was read", moved(_GOOD, 1, 2), CPU),
        (Rule.ID_INCREASING, "an id used twice", inserted(_GOOD, 4, request(CPU, "item", id=2)), CPU),
        (Rule.ID_INCREASING, "an id of 0", inserted(_GOOD, 2, request(CPU, "item", id=0)), CPU),
        (Rule.ID_INCREASING, "a negative id", inserted(_GOOD, 2, request(CPU, "item", id=-1)), CPU),
        (Rule.ID_KNOWN, "a cancellation of no item", inserted(_GOOD, 2, request(CPU, "cancellation", id=9)), CPU),
        (Rule.ID_KNOWN, "a release of no item", inserted(_GOOD, 2, request(CPU, "release", id=9)), CPU),
        (Rule.ID_KNOWN, "bytes of no item", inserted(_LOCAL, 2, request(LOCAL, "item_features", id=9)), LOCAL),
        (
            Rule.REQUEST_BYTES,
            "finished features that begin late",
            changed(_LOCAL, FromClient, "item_features", setting(chunk__offset_bytes=1), 2),
            LOCAL,
        ),
        (
            Rule.REQUEST_BYTES,
            "more finished features than announced",
            changed(_LOCAL, FromClient, "item", setting(features__size_bytes=587), 5),
            LOCAL,
        ),
        (Rule.REQUEST_BYTES, "a chunk without bytes", inserted(_LOCAL, local_close, empty_chunk), LOCAL),
        (
            Rule.CLIENT_CLOSED,
            "a release after the half-close",
            inserted(_GOOD, _HALF_CLOSE + 1, request(CPU, "release", id=1)),
            CPU,
        ),
        (Rule.CLIENT_CLOSED, "a second half-close", inserted(_GOOD, _HALF_CLOSE + 1, HalfClose()), CPU),
        (Rule.STATUS_LAST, "a release after the status", [*_GOOD, request(CPU, "release", id=1)], CPU),
    ]


def _of_opening_and_end() -> list[tuple[Rule, str, list[Event]]]:
    goaway = response(CPU, "goaway")
    config_invalid = failed_script(error_pb2.STREAM_ERROR_REASON_CONFIG_INVALID)
    return [
        (Rule.TYPE_OF_PATH, "a response of another path", inserted(_GOOD, 2, response(CUDA, "goaway"))),
        (Rule.READY_FIRST, "a summary without a ready", without(_EMPTY, FromServer, "ready")),
        (Rule.READY_ONCE, "a second ready", inserted(_GOOD, 2, _GOOD[1])),
        (Rule.READY_ONCE, "a ready without a config", _EMPTY[1:]),
        (Rule.READY_ONCE, "a ready after a failure", moved(_FAILED_EMPTY, 1, 2)),
        (Rule.PATH, "a ready of another path", _server("ready", path=CUDA)),
        (Rule.SUMMARY_ONE, "no summary", without(_GOOD, FromServer, "summary")),
        (Rule.SUMMARY_ONE, "a second summary", inserted(_GOOD, -1, _GOOD[-2])),
        (Rule.SUMMARY_ONE, "a summary after a failure", inserted(_FAILED, -1, _GOOD[-2])),
        (Rule.SUMMARY_LAST, "a goaway after the summary", inserted(_GOOD, -1, goaway)),
        (Rule.SUMMARY_LAST, "a summary before the half-close", moved(_GOOD, _HALF_CLOSE, len(_GOOD) - 2)),
        *(
            (Rule.SUMMARY_SUMS, f"a wrong {name} of {value}", _server("summary", **{name: value}))
            for name, value in [
                ("accepted_count", 5),
                ("completed_count", 3),
                ("failed_count", 2),
                ("cancelled_count", 0),
                ("sent_bytes", 588),
                ("received_bytes", 9),
                ("received_bytes", 3),
            ]
        ),
        (Rule.FAILURE_ONCE, "a second failure", inserted(_FAILED, -1, response(CPU, "failure", reason=5))),
        (Rule.FAILURE_ONCE, "a failure without a reason", failed_script(0)),
        (Rule.FAILURE_ONCE, "a refused config without its fields", config_invalid),
        (Rule.STATUS_MATCHES, "a status OK after a failure", [*_FAILED[:-1], Status(0)]),
        (Rule.STATUS_MATCHES, "another status than the failure's", [*_FAILED[:-1], Status(_INTERNAL)]),
        (Rule.STATUS_MATCHES, "a refusal without a failure", [*_EMPTY[:3], Status(_INVALID_ARGUMENT)]),
        (Rule.STATUS_MATCHES, "a bad status after a summary", [*_GOOD[:-1], Status(_INTERNAL)]),
        (Rule.STATUS_LAST, "no status", _GOOD[:-1]),
        (Rule.STATUS_LAST, "a second status", [*_GOOD, Status(0)]),
        (Rule.STATUS_LAST, "a goaway after the status", [*_GOOD, goaway]),
    ]


def _grouped(*indexes: int, is_asked: bool = True, is_nested: bool = False) -> list[Event]:
    """The good script with events of the server that stand in a row as one."""
    responses: list[Any] = [_GOOD[index].message for index in indexes]  # type: ignore[union-attr]
    group: Any = response(CPU, "group", responses=responses)
    if is_nested:
        group = response(CPU, "group", responses=[group.message, *responses])
    script = [*_GOOD[: indexes[0]], group, *_GOOD[indexes[-1] + 1 :]]
    return changed(script, FromClient, "config", setting(output__group_responses=is_asked))


def grouped_script() -> list[Event]:
    """A good stream with a plan and its first chunk in one message."""
    return _grouped(_FIRST_CHUNK - 1, _FIRST_CHUNK)


def _of_groups() -> list[tuple[Rule, str, list[Event]]]:
    plan = _FIRST_CHUNK - 1
    nested = _grouped(plan, _FIRST_CHUNK, is_nested=True)
    return [
        (Rule.GROUP, "a group that the config does not ask for", _grouped(plan, _FIRST_CHUNK, is_asked=False)),
        (Rule.GROUP, "a group of one response", _grouped(plan)),
        (Rule.GROUP, "a group in a group", nested),
    ]


def _of_items() -> list[tuple[Rule, str, list[Event]]]:
    plan = index_of(_GOOD, FromServer, "plan", 1)
    completion = index_of(_GOOD, FromServer, "completion", 1)
    error_5 = index_of(_GOOD, FromServer, "error", 5)
    item_2_cut = _summed([*_GOOD[:_SECOND_OF_ITEM_2], *_GOOD[_SECOND_OF_ITEM_2 + 1 :]], sent_bytes=988)
    empty_chunk = response(CPU, "features", id=1, chunk={"offset_bytes": 400})
    extra_chunk = response(CPU, "features", id=1, chunk={"offset_bytes": 588, "data": b"x"})
    return [
        (Rule.ITEM_SENT, "an error of no item", inserted(_GOOD, 2, response(CPU, "error", id=9))),
        (Rule.ITEM_SENT, "a plan before its item was sent", inserted(_GOOD, 2, response(CPU, "plan", id=1))),
        (Rule.PLAN_ONCE, "a second plan", inserted(_GOOD, _FIRST_CHUNK, _GOOD[plan])),
        (Rule.PLAN_ONCE, "a second plan after features", inserted(_GOOD, _SECOND_CHUNK, _GOOD[plan])),
        (Rule.PLAN_FIRST, "a chunk before the plan", inserted(_GOOD, plan, _GOOD[_FIRST_CHUNK])),
        (
            Rule.PLAN_FIRST,
            "a completion without a plan",
            _summed([*_GOOD[:plan], *_GOOD[completion:]], sent_bytes=588),
        ),
        (Rule.PLAN_TENSOR, "a plan of another type", _server("plan", plan__features__data_type=_FLOAT16)),
        (Rule.PLAN_TENSOR, "a plan of another shape", _other_shape()),
        (Rule.PATH, "a plan of another path", _server("plan", path=CUDA)),
        (Rule.CHUNK_CONTIGUOUS, "a gap between chunks", _second_chunk(chunk__offset_bytes=401)),
        (Rule.CHUNK_CONTIGUOUS, "chunks that overlap", _second_chunk(chunk__offset_bytes=399)),
        (
            Rule.CHUNK_INSIDE,
            "a chunk behind the tensor",
            _summed(inserted(_GOOD, completion, extra_chunk), sent_bytes=2 * 588 + 1),
        ),
        (Rule.CHUNK_SIZE, "a chunk without bytes", inserted(_GOOD, _SECOND_CHUNK, empty_chunk)),
        (Rule.CHUNK_SIZE, "a chunk over the limit of ready", _server("ready", limits__chunk_bytes=399)),
        (Rule.FEATURES_COMPLETE, "a completion before the last chunk", item_2_cut),
        (Rule.ITEM_OVER, "a second completion", inserted(_GOOD, -2, _GOOD[completion])),
        (Rule.ITEM_OVER, "an error after the completion", inserted(_GOOD, -2, response(CPU, "error", id=1))),
        (Rule.ITEM_OVER, "a plan after the error", inserted(_GOOD, error_5 + 1, response(CPU, "plan", id=5))),
        (Rule.ITEM_OVER, "a chunk after the completion", inserted(_GOOD, completion + 1, _GOOD[_FIRST_CHUNK])),
        (
            Rule.ITEM_ENDED,
            "an item without an end",
            _summed(without(_GOOD, FromServer, "error", 7), cancelled_count=0),
        ),
        (Rule.ITEM_ENDED, "an accepted item without an end after a failure", _failed_without_end()),
        (Rule.ORDER, "ends in another order than sent", moved(_GOOD, error_5, error_5 + 1)),
        (Rule.DIGEST, "another config digest", _server("completion", provenance__config_sha256=b"x")),
        (Rule.PATH, "a provenance of another path", _server("completion", provenance__path=CUDA)),
        (Rule.LABEL, "a completion with another label", _server("completion", label="second")),
        (Rule.LABEL, "an error without its label", _server("error", label="")),
        (Rule.ERROR_REASON, "an error without a reason", _server("error", reason=0)),
        (Rule.ERROR_REASON, "an error with an unknown reason", _server("error", reason=99)),
        (Rule.ERROR_REASON, "a final error to be retried", _server("error", retry_after__seconds=1)),
        (Rule.ERROR_REASON, "a passing error without retry_after", _server("error", reason=_OVERLOADED)),
        (Rule.CANCELLED_ASKED, "a cancelled item nobody cancelled", without(_GOOD, FromClient, "cancellation")),
    ]


BROKEN: list[BrokenScript] = [
    *(BrokenScript(rule, Party.CLIENT, sentence, script, path) for rule, sentence, script, path in _of_client()),
    *(BrokenScript(rule, Party.SERVER, sentence, script) for rule, sentence, script in _of_opening_and_end()),
    *(BrokenScript(rule, Party.SERVER, sentence, script) for rule, sentence, script in _of_items()),
    *(BrokenScript(rule, Party.SERVER, sentence, script) for rule, sentence, script in _of_groups()),
    *(BrokenScript(rule, Party.CLIENT, sentence, script, path) for rule, sentence, script, path in BROKEN_BY_CLIENT),
    *(BrokenScript(rule, Party.SERVER, sentence, script, path) for rule, sentence, script, path in BROKEN_BY_SERVER),
    BrokenScript(
        Rule.HALF_CLOSE_FIRST,
        Party.SERVER,
        "an end of a healthy stream before the half-close",
        [*_EMPTY[:2], *_EMPTY[3:]],
        also=frozenset({Rule.SUMMARY_LAST}),
    ),
]
"""Every rule is broken by at least one of them."""
