"""Which item goes where, without any I/O: exactly one result for each, whatever dies and whenever."""

from __future__ import annotations

import collections
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monopath import ConnectionFailed, ItemAttemptsExhausted, ItemError, PlanEvent, Result, Resume
from monopath._dispatch import Dispatch
from monopath._messages import Outgoing
from monopath._paths import PreprocessingPath
from monopath._resume import Backoff

PATH = PreprocessingPath.DEFERRED_CPU
LOST = ConnectionFailed(grpc.StatusCode.UNAVAILABLE, "gone")


def outgoing(payload_bytes: int = 1) -> Outgoing:
    return Outgoing(
        label="x",
        payload_bytes=payload_bytes,
        largest_request_bytes=payload_bytes,
        largest_upload_request_bytes=0,
        requests=lambda _id, _upload: (),
    )


def result(item_id: int, error: ItemError | None = None) -> Result[Any]:
    return Result(item_id=item_id, label="x", path=PATH, error=error)


def overloaded(retry_after_seconds: float | None = 0.5) -> ItemError:
    return ItemError("OVERLOADED", "full", retry_after_seconds=retry_after_seconds)


def dispatch(resume: Resume | None = None, *, as_sent: bool = False, lanes: int = 1, credit: int = 4) -> Dispatch[Any]:
    return Dispatch(resume or Resume(), PATH, as_sent=as_sent, lane_count=lanes, credit_count=credit)


def any_room(_lane: int, _outgoing: Outgoing) -> bool:
    return True


class Simulation:
    """A source, lanes that live and die, and a caller, around one dispatch."""

    def __init__(self, resume: Resume, *, item_count: int, as_sent: bool, lane_count: int, credit: int) -> None:
        self.dispatch = dispatch(resume, as_sent=as_sent, lanes=lane_count, credit=credit)
        self.resume = resume
        self.credit = credit
        self.now = 0.0
        self.next_id = 1
        self.item_count = item_count
        self.in_flight: list[list[int]] = [[] for _ in range(lane_count)]
        self.is_open = [True] * lane_count
        self.attempts: collections.Counter[int] = collections.Counter()
        self.loss_counts: collections.Counter[int] = collections.Counter()
        self.results: list[Result[Any]] = []
        self.plans: list[int] = []

    def fill(self) -> None:
        while self.dispatch.wants_item(1 << 30, self.now):
            if self.next_id > self.item_count:
                self.dispatch.exhausted = True
                break
            self.dispatch.add(self.next_id, outgoing())
            self.next_id += 1
            self.send()
        self.send()

    def send(self) -> None:
        lanes = [lane for lane, is_open in enumerate(self.is_open) if is_open]
        while assignment := self.dispatch.assign(lanes, any_room, self.now):
            held = self.in_flight[assignment.lane]
            held.append(assignment.item_id)
            self.attempts[assignment.item_id] += 1
            assert len(held) <= self.credit
            suspects = [
                item_id
                for item_id in held
                if self.loss_counts[item_id] and self.attempts[item_id] == self.resume.max_attempt_count
            ]
            assert not suspects or len(held) == 1

    def take_events(self) -> None:
        while self.dispatch.events:
            event = self.dispatch.events.popleft()
            if isinstance(event, PlanEvent):
                self.plans.append(event.id)
            else:
                self.results.append(event)

    def plan(self, lane: int) -> None:
        for item_id in self.in_flight[lane]:
            self.dispatch.receive(lane, PlanEvent(item_id, "x", PATH, None), self.now)  # type: ignore[arg-type]

    def end(self, lane: int, which: int, error: ItemError | None = None) -> None:
        held = self.in_flight[lane]
        if held:
            item_id = held.pop(which % len(held))
            self.dispatch.receive(lane, result(item_id, error), self.now)

    def lose(self, lane: int) -> None:
        self.is_open[lane] = False
        self.loss_counts.update(self.in_flight[lane])
        self.in_flight[lane].clear()
        self.dispatch.lose(lane, LOST)

    def run_to_the_end(self) -> None:
        self.is_open = [True] * len(self.is_open)
        for _ in range(20 * self.item_count + 20):
            self.fill()
            for lane in range(len(self.in_flight)):
                self.end(lane, 0)
            self.take_events()
            self.now += self.dispatch.next_due_seconds(self.now) or 0.0
            if self.dispatch.done and not self.dispatch.events:
                return
        raise AssertionError("Expected the dispatch to come to its end")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["fill", "take", "plan", "end", "refuse", "lose", "open", "wait"]),
        st.integers(0, 3),
        st.integers(0, 7),
    ),
    max_size=120,
)


@settings(max_examples=200, deadline=None)
@given(
    steps=STEPS,
    as_sent=st.booleans(),
    lane_count=st.integers(1, 4),
    credit=st.integers(1, 4),
    max_attempt_count=st.integers(1, 4),
    item_count=st.integers(0, 25),
)
def test_deaths_at_any_point_leave_exactly_one_result_for_each_item(
    steps: list[tuple[str, int, int]],
    as_sent: bool,
    lane_count: int,
    credit: int,
    max_attempt_count: int,
    item_count: int,
) -> None:
    resume = Resume(max_attempt_count=max_attempt_count)
    run = Simulation(resume, item_count=item_count, as_sent=as_sent, lane_count=lane_count, credit=credit)
    for kind, lane, which in steps:
        lane %= lane_count
        match kind:
            case "fill":
                run.fill()
            case "take":
                run.take_events()
            case "plan":
                run.plan(lane)
            case "end":
                run.end(lane, which)
            case "refuse":
                run.end(lane, which, overloaded())
            case "lose":
                run.lose(lane)
            case "open":
                run.is_open[lane] = True
            case _:
                run.now += 0.3
    run.run_to_the_end()
    ids = [one.id for one in run.results]
    assert sorted(ids) == list(range(1, item_count + 1))
    if as_sent:
        assert ids == sorted(ids)
    assert len(run.plans) == len(set(run.plans))
    assert all(1 <= run.attempts[item_id] <= max_attempt_count for item_id in ids)
    for one in run.results:
        if one.error is not None:
            # Nothing is given up before its time.
            assert run.attempts[one.id] == max_attempt_count
            assert isinstance(one.error, ItemAttemptsExhausted) or one.error.reason == "OVERLOADED"


@settings(max_examples=100, deadline=None)
@given(as_sent=st.booleans(), lane_count=st.integers(1, 3), credit=st.integers(1, 5), steps=STEPS)
def test_no_more_is_taken_from_the_source_than_there_is_credit_for(
    as_sent: bool, lane_count: int, credit: int, steps: list[tuple[str, int, int]]
) -> None:
    run = Simulation(Resume(), item_count=1000, as_sent=as_sent, lane_count=lane_count, credit=credit)
    for kind, lane, which in steps:
        run.fill()
        assert run.next_id - 1 - len(run.results) <= lane_count * credit + 1
        if kind == "lose":
            run.lose(lane % lane_count)
            run.is_open[lane % lane_count] = True
        elif kind != "wait":
            run.end(lane % lane_count, which)
            run.take_events()


def test_the_lane_with_the_fewest_items_in_flight_gets_the_next_one() -> None:
    run = dispatch(lanes=2, credit=8)
    lanes = []
    for item_id in range(1, 5):
        run.add(item_id, outgoing())
        assignment = run.assign([0, 1], any_room, 0.0)
        assert assignment is not None
        lanes.append(assignment.lane)
    assert lanes == [0, 1, 0, 1]
    run.receive(1, result(2), 0.0)
    run.receive(1, result(4), 0.0)
    run.add(5, outgoing())
    assignment = run.assign([0, 1], any_room, 0.0)
    assert assignment is not None
    assert assignment.lane == 1


def test_an_item_that_may_have_killed_its_streams_is_sent_alone_the_last_time() -> None:
    run = dispatch(Resume(max_attempt_count=2), credit=4)
    for item_id in (1, 2):
        run.add(item_id, outgoing())
        assert run.assign([0], any_room, 0.0)
    run.lose(0, LOST)
    first = run.assign([0], any_room, 0.0)
    assert first is not None
    assert first.item_id == 1
    assert run.assign([0], any_room, 0.0) is None
    run.lose(0, LOST)
    (lost,) = run.events
    assert isinstance(lost, Result)
    assert isinstance(lost.error, ItemAttemptsExhausted)
    assert (lost.error.attempt_count, lost.error.lost, lost.error.code) == (2, LOST, grpc.StatusCode.UNAVAILABLE)
    second = run.assign([0], any_room, 0.0)
    assert second is not None
    assert second.item_id == 2


@pytest.mark.parametrize(
    ("resume", "error", "again"),
    [
        (Resume(), overloaded(0.5), True),
        (Resume(), overloaded(None), True),
        (Resume(), overloaded(11.0), False),
        (Resume(retry_items=False), overloaded(0.5), False),
        (Resume(max_attempt_count=1), overloaded(0.5), False),
        (Resume(), ItemError("IMAGE_DAMAGED", "no"), False),
        (Resume(), ItemError("INTERNAL", "no"), False),
        (Resume(), ItemError("99", "new", retry_after_seconds=0.5), True),
    ],
)
def test_an_item_that_could_not_be_taken_is_sent_again_when_the_server_said(
    resume: Resume, error: ItemError, again: bool
) -> None:
    run = dispatch(resume)
    run.add(1, outgoing())
    assert run.assign([0], any_room, 0.0)
    run.receive(0, result(1, error), 10.0)
    if not again:
        (event,) = run.events
        assert isinstance(event, Result)
        assert event.error is error
        return
    assert not run.events
    due_seconds = run.next_due_seconds(10.0) or 0.0
    assert due_seconds == pytest.approx(error.retry_after_seconds or resume.first_wait_seconds)
    assert run.assign([0], any_room, 10.0) is None
    assert run.assign([0], any_room, 10.0 + due_seconds + 1e-6) is not None


def test_the_first_item_is_not_overtaken_by_smaller_ones() -> None:
    run = dispatch(lanes=1)
    run.add(1, outgoing(100))
    run.add(2, outgoing(1))
    assert run.assign([0], lambda _lane, item: item.payload_bytes < 50, 0.0) is None


def test_bytes_that_wait_for_a_result_are_bounded() -> None:
    run = dispatch(credit=100)
    assert run.wants_item(10, 0.0)
    for item_id in (1, 2):
        run.add(item_id, outgoing(6))
        assert run.assign([0], any_room, 0.0)
    assert not run.wants_item(10, 0.0)
    run.receive(0, result(1), 0.0)
    run.events.clear()
    assert run.wants_item(10, 0.0)


def test_waits_grow_to_their_bound_and_shrink_when_items_end() -> None:
    resume = Resume(first_wait_seconds=1.0, max_wait_seconds=5.0, max_opening_count=4)
    backoff = Backoff(resume, pick=lambda: 1.0)
    waits = []
    for _ in range(5):
        backoff.lost(LOST, 100.0, was_open=True)
        waits.append(backoff.wait_seconds(100.0))
    assert waits == [1.0, 2.0, 4.0, 5.0, 5.0]
    backoff.progressed()
    backoff.lost(LOST, 100.0, was_open=True)
    assert backoff.wait_seconds(100.5) == 0.5
    assert Backoff(resume).wait_seconds(0.0) == 0.0


def test_openings_that_fail_in_a_row_are_counted() -> None:
    backoff = Backoff(Resume(max_opening_count=2))
    assert backoff.lost(LOST, 0.0, was_open=False)
    assert backoff.lost(LOST, 0.0, was_open=True)
    assert backoff.lost(LOST, 0.0, was_open=False)
    assert not backoff.lost(LOST, 0.0, was_open=False)


def test_what_a_server_asks_to_wait_is_waited_or_given_up() -> None:
    asked = ConnectionFailed(grpc.StatusCode.UNAVAILABLE, "full", retry_after_seconds=3.0)
    backoff = Backoff(Resume(first_wait_seconds=0.1, max_wait_seconds=3.0))
    assert backoff.lost(asked, 0.0, was_open=False)
    assert backoff.wait_seconds(0.0) == 3.0
    assert not Backoff(Resume(max_wait_seconds=2.0)).lost(asked, 0.0, was_open=False)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_attempt_count": 0},
        {"max_opening_count": 0},
        {"first_wait_seconds": -1.0},
        {"first_wait_seconds": 3.0, "max_wait_seconds": 2.0},
    ],
)
def test_a_resume_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Expected"):
        Resume(**wrong)
