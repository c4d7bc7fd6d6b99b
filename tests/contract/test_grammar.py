"""The grammar checker itself: it passes good streams, and each of its rules finds the streams that break it."""

from __future__ import annotations

import pytest

from monopath.v1 import service_pb2
from tests.contract.broken_scripts import BROKEN, BrokenScript, failed_script, grouped_script
from tests.contract.handle_scripts import handle_script
from tests.contract.scripts import CPU, CUDA, LOCAL, good_script, index_of, inserted, moved, request, without
from tests.support.grammar import (
    FromClient,
    FromServer,
    HalfClose,
    Party,
    Rule,
    Status,
    StreamTrace,
    stream_violations,
)


@pytest.mark.parametrize("path", [LOCAL, CUDA, CPU])
def test_a_good_stream_of_every_path_breaks_no_rule(path: int) -> None:
    assert stream_violations(path, good_script(path)) == ()


@pytest.mark.parametrize("path", [LOCAL, CUDA, CPU])
def test_handles_and_chunks_may_mix_on_a_stream_over_shared_memory(path: int) -> None:
    assert stream_violations(path, handle_script(path)) == ()


def test_responses_may_come_as_a_group_where_the_config_asks_for_it() -> None:
    assert stream_violations(CPU, grouped_script()) == ()


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: f"{case.rule}: {case.sentence}")
def test_a_broken_rule_is_found_and_no_other(case: BrokenScript) -> None:
    found = {(violation.party, violation.rule) for violation in stream_violations(case.path, case.script)}
    assert found == {(case.party, rule) for rule in {case.rule, *case.also}}


def test_every_rule_has_a_script_that_breaks_it() -> None:
    assert {case.rule for case in BROKEN} == set(Rule)


def test_a_violation_names_the_event_the_party_the_rule_and_the_item() -> None:
    script = good_script(CPU)
    index = index_of(script, FromServer, "completion", 1)
    (violation,) = stream_violations(CPU, inserted(script, index + 1, script[index]))
    assert str(violation) == (
        f"event {index + 1} (server, item_over): item 1: Expected nothing after its end, got completion"
    )


def test_goaway_and_failure_end_nothing() -> None:
    script = good_script(CPU)
    unanswered = without(without(script, FromServer, "error"), FromServer, "summary")
    assert Rule.ITEM_ENDED in {violation.rule for violation in stream_violations(CPU, unanswered)}
    assert stream_violations(CPU, failed_script()) == ()


def test_a_goaway_may_come_before_ready() -> None:
    script = good_script(CPU)
    assert stream_violations(CPU, moved(script, index_of(script, FromServer, "goaway"), 1)) == ()


def test_an_unknown_response_of_a_newer_server_is_skipped() -> None:
    newer = FromServer(service_pb2.StreamDeferredCpuResponse.FromString(b"\xca\x02\x00"))
    assert stream_violations(CPU, inserted(good_script(CPU), 2, newer)) == ()


def test_a_lost_connection_excuses_missing_ends() -> None:
    script = good_script(CPU)
    cut = script[: index_of(script, FromServer, "completion", 2)]
    assert stream_violations(CPU, [*cut, Status(14)]) == ()
    assert stream_violations(CPU, [*cut, Status(0)]) != ()


def test_items_behind_a_failure_need_no_end() -> None:
    script = failed_script()
    assert stream_violations(CPU, without(script, FromServer, "error")) == ()


def test_items_that_may_end_as_completed_have_no_order() -> None:
    script = good_script(CPU)
    config = request(CPU, "config", output={"data_type": "DATA_TYPE_UINT8", "order": 1, "inline": {}})
    index = index_of(script, FromServer, "error", 5)
    assert stream_violations(CPU, [config, *moved(script, index, index + 1)[1:]]) == ()


def test_a_trace_records_a_stream_and_blames_the_right_party() -> None:
    trace = StreamTrace(CPU)
    for event in inserted(good_script(CPU), 2, request(CPU, "release", id=9)):
        match event:
            case FromClient(message):
                trace.sent(message)
            case FromServer(message):
                trace.received(message)
            case HalfClose():
                trace.half_closed()
            case Status(code):
                trace.ended(code)
    trace.check(Party.SERVER)
    with pytest.raises(AssertionError, match="event 2 \\(client, id_known\\)"):
        trace.check()


def test_a_number_that_is_no_path_is_refused() -> None:
    with pytest.raises(ValueError, match="Expected the number of a path"):
        stream_violations(0, [])
