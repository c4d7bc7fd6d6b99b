"""`map`: one result for each image, read while it writes, failures as values."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import pathlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from monopath import AsyncClient, Client, GridThw, Item, ItemError, LocalFeatures, RawImage, Size
from monopath.v1 import config_pb2, error_pb2, event_pb2, image_pb2, tensor_pb2
from tests.clients import wire
from tests.clients.drivers import ARGUMENTS, KINDS, map_all
from tests.clients.fake_server import Script, Servicer, answering, holding, serving


@KINDS
def test_each_image_gives_one_result_with_its_features(kind: str) -> None:
    seen: dict[str, Any] = {}
    with serving(Servicer(answering())) as address:
        results = map_all(kind, address, [b"a", b"b", b"c"], seen=seen)
    assert [result.id for result in results] == [1, 2, 3]
    for result in results:
        assert result.ok
        expected = np.arange(12, dtype=np.float32).reshape(wire.SHAPE) + np.float32(result.id)
        np.testing.assert_array_equal(result.array, expected)
        assert result.array.dtype == np.float32
        assert result.plan.grid_thw == GridThw(1, 1, 1)
        assert result.plan.original_size == Size(3, 2)
        assert result.path == result.provenance.path == "DEFERRED_CPU"
        assert result.provenance.route == "host"
        assert result.provenance.resample_kernel == "pillow_13"
        assert result.timings.decoding_seconds == 0.25
    assert seen["ready"].limits.max_unfinished_items == 4
    assert (seen["summary"].accepted_count, seen["summary"].completed_count) == (3, 3)


@KINDS
def test_the_request_carries_everything_that_an_item_says(kind: str, tmp_path: pathlib.Path) -> None:
    received: list[Any] = []

    def answer(item: Any) -> list[Any]:
        received.append(item)
        return wire.CPU.whole_item(item.id, item.label)

    file = tmp_path / "image.png"
    file.write_bytes(b"file")
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    images = [
        Item(b"data", label="first", expected_sha256=b"d" * 32, traceparent="00-1-2-03"),
        file,
        RawImage(pixels[:, ::2], "RGB8"),
    ]
    with serving(Servicer(answering(answer))) as address:
        results = map_all(kind, address, images)
    assert [result.label for result in results] == ["first", "", ""]
    encoded, from_file, raw = received
    assert (encoded.image.encoded.data, encoded.expected_sha256) == (b"data", b"d" * 32)
    assert (encoded.label, encoded.traceparent) == ("first", "00-1-2-03")
    assert from_file.image.encoded.data == b"file"
    assert raw.image.pixels.data == np.ascontiguousarray(pixels[:, ::2]).tobytes()
    assert (raw.image.pixels.width_px, raw.image.pixels.height_px) == (2, 2)
    assert raw.image.pixels.format == image_pb2.PIXEL_FORMAT_RGB8


@KINDS
def test_a_failed_item_is_a_value_between_its_neighbours(kind: str) -> None:
    def answer(item: Any) -> list[Any]:
        if item.id == 2:
            return [wire.CPU.error(2, label="x", field="image.encoded.data")]
        return wire.CPU.whole_item(item.id)

    with serving(Servicer(answering(answer))) as address:
        results = map_all(kind, address, [b"a", Item(b"b", label="second"), b"c"])
    assert [result.ok for result in results] == [True, False, True]
    failed = results[1]
    assert isinstance(failed.error, ItemError)
    assert (failed.error.reason, failed.error.field, failed.error.label) == (
        "IMAGE_DAMAGED",
        "image.encoded.data",
        "second",
    )
    assert not failed.error.retryable
    for read in (lambda: failed.array, lambda: failed.provenance, lambda: failed.timings, failed.raise_for_error):
        with pytest.raises(ItemError) as caught:
            read()
        assert caught.value is failed.error


@KINDS
def test_a_retryable_item_error_says_when_to_come_back(kind: str) -> None:
    def answer(item: Any) -> list[Any]:
        response = wire.CPU.error(item.id, error_pb2.ITEM_ERROR_REASON_OVERLOADED)
        response.error.retry_after.FromMilliseconds(1500)
        return [response]

    with serving(Servicer(answering(answer))) as address:
        (result,) = map_all(kind, address, [b"a"])
    assert result.error.retryable
    assert result.error.retry_after_seconds == 1.5


@KINDS
def test_unknown_enum_numbers_and_unknown_arms_do_no_harm(kind: str) -> None:
    def answer(item: Any) -> list[Any]:
        unknown = wire.CPU.response.FromString(b"\xca\x0c\x02\x08\x01")  # field 201, a message
        assert unknown.WhichOneof("payload") is None
        whole = wire.CPU.whole_item(item.id)
        whole[-1].completion.provenance.route = 77
        return [unknown, *whole] if item.id == 1 else [unknown, wire.CPU.error(item.id, 99)]

    with serving(Servicer(answering(answer))) as address:
        good, bad = map_all(kind, address, [b"a", b"b"])
    assert good.provenance.route == "77"
    assert bad.error.reason == "99"
    assert not bad.error.retryable


@KINDS
@pytest.mark.parametrize(("max_items", "max_bytes"), [(3, 1000), (1000, 3)])
def test_no_more_items_and_bytes_are_in_flight_than_the_server_takes(kind: str, max_items: int, max_bytes: int) -> None:
    limits = event_pb2.StreamLimits()
    limits.CopyFrom(wire.LIMITS)
    limits.max_unfinished_items, limits.max_unfinished_bytes = max_items, max_bytes
    taken: list[int] = []
    most_ahead = 0
    results: list[Any] = []

    def images() -> Iterator[bytes]:
        for index in range(20):
            taken.append(index)
            yield bytes([index])

    with serving(Servicer(answering(limits=limits))) as address:
        if kind == "sync":
            with Client(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
                for result in stream.map(images()):
                    most_ahead = max(most_ahead, len(taken) - len(results))
                    results.append(result)
        else:

            async def run() -> None:
                nonlocal most_ahead
                async with AsyncClient(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
                    async for result in stream.map(images()):
                        most_ahead = max(most_ahead, len(taken) - len(results))
                        results.append(result)

            asyncio.run(run())
    assert len(results) == 20
    # Three of one byte each in flight, and one more that was taken and waits for room.
    assert most_ahead <= 4


@KINDS
def test_the_caller_may_ask_for_fewer_items_in_flight(kind: str) -> None:
    arrived: list[int] = []

    def answer(item: Any) -> list[Any]:
        arrived.append(item.id)
        return wire.CPU.whole_item(item.id)

    with serving(Servicer(answering(answer))) as address:
        results = map_all(kind, address, [b"a"] * 5, max_unfinished_items=1)
    assert arrived == [1, 2, 3, 4, 5]
    assert len(results) == 5


@KINDS
def test_an_item_larger_than_all_room_is_sent_when_nothing_else_is_in_flight(kind: str) -> None:
    limits = event_pb2.StreamLimits()
    limits.CopyFrom(wire.LIMITS)
    limits.max_unfinished_bytes = 10
    with serving(Servicer(answering(limits=limits))) as address:
        results = map_all(kind, address, [b"a" * 4, b"b" * 100, b"c" * 4])
    assert [result.ok for result in results] == [True, True, True]


@KINDS
@pytest.mark.parametrize("order", ["as_completed", "as_sent"])
def test_an_item_that_would_end_the_stream_is_refused_here_in_its_turn(kind: str, order: str) -> None:
    received: list[int] = []

    def answer(item: Any) -> list[Any]:
        received.append(item.id)
        return wire.CPU.whole_item(item.id)

    images = [b"a", b"x" * (wire.LIMITS.max_request_bytes + 1), b"c"]
    with serving(Servicer(answering(answer))) as address:
        results = map_all(kind, address, images, order=order)
    assert received == [1, 3]
    by_id = {result.id: result for result in results}
    assert [by_id[item_id].ok for item_id in (1, 2, 3)] == [True, False, True]
    assert by_id[2].error.reason == "IMAGE_BYTES_EXCEEDED"
    if order == "as_sent":
        assert [result.id for result in results] == [1, 2, 3]


@KINDS
def test_large_replies_and_large_requests_at_once_do_not_lock_up(kind: str) -> None:
    """Replies are far over every flow-control window, and the server reads nothing while it writes."""
    rows = 40_000
    data = bytes(rows * 12 * 4)
    limits = event_pb2.StreamLimits()
    limits.CopyFrom(wire.LIMITS)
    limits.max_unfinished_items, limits.max_unfinished_bytes = 16, 1 << 28

    def answer(item: Any) -> list[Any]:
        size = 1 << 20
        chunks = [wire.CPU.chunk(item.id, data[at : at + size], at) for at in range(0, len(data), size)]
        return [wire.CPU.plan(item.id, shape=(rows, 3, 2, 2)), *chunks, wire.CPU.completion(item.id)]

    with serving(Servicer(answering(answer, limits=limits))) as address:
        results = map_all(kind, address, [bytes(1_000_000)] * 24)
    assert [result.array.shape for result in results] == [(rows, 3, 2, 2)] * 24


@KINDS
def test_no_image_at_all_gives_no_result(kind: str) -> None:
    seen: dict[str, Any] = {}
    with serving(Servicer(answering())) as address:
        assert map_all(kind, address, [], seen=seen) == []
    assert seen["summary"].accepted_count == 0


@KINDS
def test_plans_are_told_before_their_results(kind: str) -> None:
    told: list[tuple[str, int]] = []
    with serving(Servicer(answering())) as address:
        map_all(kind, address, [b"a"], on_plan=lambda plan: told.append((plan.path, plan.id)))
    assert told == [("DEFERRED_CPU", 1)]


@KINDS
@pytest.mark.parametrize("thing", ["name.png", 7, None, np.zeros((2, 2, 3), np.uint8), bytearray(b"x")])
def test_a_thing_that_is_no_image_is_a_type_error_that_says_what_to_give(kind: str, thing: object) -> None:
    with serving(Servicer(holding())) as address, pytest.raises(TypeError, match=r"Expected an image.*Path"):
        map_all(kind, address, [b"a", thing])


@KINDS
def test_a_file_that_cannot_be_read_raises_its_own_error(kind: str, tmp_path: pathlib.Path) -> None:
    with serving(Servicer(answering())) as address, pytest.raises(FileNotFoundError):
        map_all(kind, address, [tmp_path / "missing.png"])


@KINDS
def test_an_error_of_the_images_own_source_comes_through_and_cancels_what_is_in_flight(kind: str) -> None:
    def images() -> Iterator[bytes]:
        yield b"a"
        raise LookupError("no more")

    servicer = Servicer(holding())
    with serving(servicer) as address:
        with pytest.raises(LookupError, match="no more"):
            map_all(kind, address, images())
        servicer.ended.get(timeout=30)


def _answer_or_hold(cancelled: list[int]) -> Script:
    """Answer images that say so, and hold all others until they are cancelled."""

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield wire.CPU.ready()
        completed_count = 0
        for request in requests:
            match request.WhichOneof("payload"):
                case "item" if request.item.image.encoded.data == b"answer":
                    completed_count += 1
                    yield from wire.CPU.whole_item(request.item.id)
                case "cancellation":
                    cancelled.append(request.cancellation.id)
                    yield wire.CPU.error(request.cancellation.id, error_pb2.ITEM_ERROR_REASON_CANCELLED)
                case _:
                    pass
        yield wire.CPU.summary(completed=completed_count, cancelled=len(cancelled))

    return script


def test_leaving_the_loop_cancels_what_is_in_flight_and_the_stream_stays_usable() -> None:
    cancelled: list[int] = []
    with serving(Servicer(_answer_or_hold(cancelled))) as address, Client(address) as client:
        with client.deferred_cpu(**ARGUMENTS) as stream:
            for _result in stream.map([b"answer", b"hold", b"hold"]):
                break
            second = list(stream.map([b"answer", b"answer"]))
        assert [result.id for result in second] == [4, 5]
        assert stream.summary is not None
        assert (stream.summary.completed_count, stream.summary.cancelled_count) == (3, 2)
    assert cancelled == [2, 3]


@pytest.mark.asyncio
async def test_leaving_the_asyncio_loop_cancels_what_is_in_flight_and_the_stream_stays_usable() -> None:
    cancelled: list[int] = []
    with serving(Servicer(_answer_or_hold(cancelled))) as address:
        async with AsyncClient(address) as client:
            async with client.deferred_cpu(**ARGUMENTS) as stream:
                async with contextlib.aclosing(stream.map([b"hold", b"answer", b"hold"])) as results:
                    async for _result in results:
                        break
                second = [result async for result in stream.map([b"answer"])]
            assert [result.ok for result in second] == [True]
            assert stream.summary is not None
            assert (stream.summary.completed_count, stream.summary.cancelled_count) == (2, len(cancelled))
    # The third may have been sent when the loop was left, or not.
    assert cancelled in ([1], [1, 3])


@pytest.mark.asyncio
async def test_a_slow_source_of_images_does_not_keep_results_back() -> None:
    first_seen = asyncio.Event()

    async def images() -> AsyncIterator[bytes]:
        yield b"a"
        await first_seen.wait()
        yield b"b"

    with serving(Servicer(answering())) as address:
        async with AsyncClient(address) as client, client.deferred_cpu(**ARGUMENTS) as stream:
            ids = []
            async for result in stream.map(images()):
                ids.append(result.id)
                first_seen.set()
    assert ids == [1, 2]


@KINDS
def test_finished_features_travel_in_chunks_and_come_back(kind: str) -> None:
    received: dict[int, bytes] = {}
    items: list[Any] = []

    def script(requests: Iterator[Any], _context: Any) -> Iterator[Any]:
        next(requests)
        yield wire.LOCAL.ready()
        for request in requests:
            match request.WhichOneof("payload"):
                case "item":
                    items.append(request.item)
                    received[request.item.id] = b""
                    yield wire.LOCAL.plan(request.item.id, shape=tuple(request.item.features.shape))
                case "item_features":
                    part = request.item_features
                    assert part.chunk.offset_bytes == len(received[part.id])
                    received[part.id] += part.chunk.data
                    yield wire.LOCAL.chunk(part.id, part.chunk.data, part.chunk.offset_bytes)
                    if len(received[part.id]) == items[-1].features.size_bytes:
                        yield wire.LOCAL.completion(part.id, items[-1].label)
                case _:
                    pass
        yield wire.LOCAL.summary(completed=len(items))

    array = np.arange(60_000 * 12, dtype=np.float32).reshape(60_000, 3, 2, 2)
    features = LocalFeatures(array, Size(3, 2), GridThw(1, 200, 300), token_count=15_000, label="mine")
    with serving(Servicer(script)) as address:
        results = map_all(kind, address, [features, features], method="local")
    assert [result.label for result in results] == ["mine", "mine"]
    for result in results:
        assert result.path == "LOCAL"
        np.testing.assert_array_equal(result.array, array)
    assert (items[0].token_count, items[0].grid_thw.h, items[0].original_size.width_px) == (15_000, 200, 3)


@KINDS
def test_the_cuda_path_sends_its_own_config(kind: str) -> None:
    configs: list[Any] = []

    def script(requests: Iterator[Any], context: Any) -> Iterator[Any]:
        first = next(requests)
        configs.append(first.config)
        yield from answering(path=wire.CUDA)(itertools.chain([first], requests), context)

    with serving(Servicer(script)) as address:
        (result,) = map_all(kind, address, [b"a"], method="deferred_cuda", device_uuid="GPU-1", order="as_sent")
    assert result.path == "DEFERRED_CUDA"
    assert (configs[0].device_uuid, configs[0].processor.preset.name) == ("GPU-1", "kimi-k3")
    assert configs[0].output.order == config_pb2.RESULT_ORDER_AS_SENT
    assert configs[0].output.data_type == tensor_pb2.DATA_TYPE_FLOAT32
    assert configs[0].output.WhichOneof("transport") == "inline"


@KINDS
def test_metadata_and_nothing_else_of_the_callers_goes_with_the_call(kind: str) -> None:
    servicer = Servicer(answering())
    with serving(servicer) as address:
        map_all(kind, address, [b"a"], metadata=(("authorization", "Bearer x"),))
    assert ("authorization", "Bearer x") in servicer.metadata
