"""Features and images in shared memory: the same bytes as inline, on every path."""

from __future__ import annotations

from typing import Any

import pytest

from monopath.v1 import event_pb2, tensor_pb2
from monopath_server.settings import DeviceMode
from tests.stream.shared_rig import SharedRig, finished, shared_rig
from tests.stream.test_local import announce, header, whole
from tests.support.footprint import settle
from tests.support.segments import located_features, located_file, located_pixels
from tests.support.stream import PathName, RawStream, encoded, make_config, make_item, photo, png, raw_pixels

SMALL = photo(50, 40)
SIZES = ((50, 40), (15, 400), (333, 251))
DATA_TYPES = [number for number in tensor_pb2.DataType.values() if number != 0]


def images() -> list[Any]:
    """Some that are good, and a damaged one among them."""
    good = [encoded(png(photo(*size, seed))) for seed, size in enumerate(SIZES)]
    return [*good, encoded(b"no image at all"), raw_pixels(SMALL.tobytes(), 50, 40)]


def assert_same(stream: RawStream, inline: RawStream) -> None:
    """Every byte, and all that is said about it."""
    assert stream.outcomes.keys() == inline.outcomes.keys()
    for item_id, expected in inline.outcomes.items():
        found = stream.outcomes[item_id]
        assert found.reason == expected.reason
        assert found.plan == expected.plan
        assert bytes(found.data) == bytes(expected.data)
        if expected.completion is not None:
            assert found.completion.provenance == expected.completion.provenance


@pytest.mark.parametrize(
    ("path", "data_type"),
    [
        *(("deferred_cpu", data_type) for data_type in DATA_TYPES),
        # The interpreter is slow.
        ("deferred_cuda", tensor_pb2.DATA_TYPE_UINT8),
        ("deferred_cuda", tensor_pb2.DATA_TYPE_BFLOAT16),
    ],
    ids=str,
)
@pytest.mark.asyncio
async def test_images_give_by_handle_what_they_give_inline(
    path: PathName, data_type: tensor_pb2.DataType.ValueType
) -> None:
    mode = DeviceMode.INTERPRETER if path == "deferred_cuda" else DeviceMode.OFF
    requests = [make_item(item_id, image, f"item {item_id}", path) for item_id, image in enumerate(images(), 1)]
    async with shared_rig(cuda=mode) as rig:
        stream = await rig.run(requests, rig.config(path, data_type=data_type), path)
        inline = await rig.open(make_config(path, data_type=data_type), path)
        await inline.send(*requests)
        assert_same(stream, await finished(inline))
    assert [outcome.mapped is not None for _, outcome in sorted(stream.outcomes.items())] == [True] * 3 + [False, True]
    assert stream.summary is not None
    assert stream.summary.fallback_count == 0


@pytest.mark.parametrize("data_type", DATA_TYPES, ids=tensor_pb2.DataType.Name)
@pytest.mark.asyncio
async def test_finished_features_give_by_handle_what_they_give_inline(
    data_type: tensor_pb2.DataType.ValueType,
) -> None:
    async with shared_rig() as rig:
        data = await local_bytes(rig)
        requests = [
            *whole(1, data, data_type=tensor_pb2.DATA_TYPE_UINT8, size_bytes=len(data)),
            *whole(2, b"short", token_count=7),
        ]
        stream = await rig.open_shared("local", data_type=data_type)
        inline = await rig.open(make_config("local", data_type=data_type), "local")
        for each in (stream, inline):
            await each.send(*requests)
        assert_same(await finished(stream), await finished(inline))
    assert stream.outcomes[1].mapped is not None
    assert stream.outcomes[2].reason == "FEATURES_MISMATCH"


async def local_bytes(rig: SharedRig) -> bytes:
    """Finished features of `tests.stream.test_local.SIZE`, uint8."""
    stream = await rig.run(
        [make_item(1, encoded(png(photo(60, 44))))], make_config(data_type=tensor_pb2.DATA_TYPE_UINT8)
    )
    return bytes(stream.outcomes[1].data)


@pytest.mark.parametrize("offset_bytes", [0, 1, 4096, 10_007])
@pytest.mark.asyncio
async def test_images_that_come_by_handle_give_what_they_give_inline(offset_bytes: int) -> None:
    file = png(photo(333, 251))
    async with shared_rig() as rig:
        inline = await rig.run([make_item(1, encoded(file)), make_item(2, raw_pixels(SMALL.tobytes(), 50, 40))])
        stream = await rig.open_shared()
        by_handle = rig.memory.put(file, offset_bytes=offset_bytes)
        pixels_by_handle = rig.memory.put(SMALL.tobytes(), offset_bytes=offset_bytes)
        await stream.send(
            make_item(1, located_file(by_handle)),
            make_item(2, located_pixels(pixels_by_handle, 50, 40)),
            # Items in messages may come between them, and the same file again in either way.
            make_item(3, encoded(file)),
            make_item(4, located_file(rig.memory.handle(by_handle.name, offset_bytes, len(file)))),
        )
        await finished(stream)
    for item_id, expected_id in ((1, 1), (2, 2), (3, 1), (4, 1)):
        found, expected = stream.outcomes[item_id], inline.outcomes[expected_id]
        assert bytes(found.data) == bytes(expected.data)
        assert found.completion.provenance == expected.completion.provenance
    assert stream.summary is not None
    assert stream.summary.received_bytes == 3 * len(file) + SMALL.nbytes


@pytest.mark.asyncio
async def test_images_by_handle_reach_the_device_too() -> None:
    file = png(photo(100, 80))
    async with shared_rig(cuda=DeviceMode.INTERPRETER) as rig:
        stream = await rig.open_shared("deferred_cuda")
        await stream.send(
            make_item(1, located_file(rig.memory.put(file)), path="deferred_cuda"),
            make_item(2, encoded(file), path="deferred_cuda"),
        )
        await finished(stream)
    assert bytes(stream.outcomes[1].data) == bytes(stream.outcomes[2].data)
    assert stream.outcomes[1].completion.provenance.route == event_pb2.ROUTE_DEVICE


@pytest.mark.asyncio
async def test_finished_features_may_come_by_handle_and_beside_others_in_chunks() -> None:
    async with shared_rig() as rig:
        data = await local_bytes(rig)
        uint8 = {"data_type": tensor_pb2.DATA_TYPE_UINT8, "size_bytes": len(data)}
        stream = await rig.open_shared("local", data_type=tensor_pb2.DATA_TYPE_UINT8)
        await stream.send(
            announce(header(1, **uint8)),
            *whole(2, data[::-1], **uint8),
            located_features(1, rig.memory.put(data, offset_bytes=77)),
            announce(header(3, **uint8)),
            located_features(3, rig.memory.put(data[::-1])),
        )
        await finished(stream)
    assert bytes(stream.outcomes[1].data) == data
    assert bytes(stream.outcomes[2].data) == bytes(stream.outcomes[3].data) == data[::-1]
    assert stream.summary is not None
    assert stream.summary.received_bytes == 3 * len(data)


@pytest.mark.parametrize("excess", [-1, 1])
@pytest.mark.asyncio
async def test_a_handle_to_other_than_all_announced_bytes_fails_its_item(excess: int) -> None:
    async with shared_rig() as rig:
        data = await local_bytes(rig)
        uint8 = {"data_type": tensor_pb2.DATA_TYPE_UINT8, "size_bytes": len(data)}
        handle = rig.memory.put(data + b"x")
        handle.length_bytes = len(data) + excess
        stream = await rig.open_shared("local", data_type=tensor_pb2.DATA_TYPE_UINT8)
        await stream.send(announce(header(1, **uint8)), located_features(1, handle), *whole(2, data, **uint8))
        assert await stream.finish(grammar=False) == "OK"
    assert stream.outcomes[1].reason == "FEATURES_INCOMPLETE"
    assert bytes(stream.outcomes[2].data) == data


@pytest.mark.asyncio
async def test_ready_tells_a_probe_that_the_client_can_read_and_how_long_leases_last() -> None:
    async with shared_rig(lease_timeout_seconds=12.5) as rig:
        stream = await rig.open_shared()
        inline = await rig.open()
        assert stream.ready is not None
        assert inline.ready is not None
        offer = stream.ready.shared_memory
        content = (rig.directory / offer.probe.name).read_bytes()
        assert len(offer.probe.nonce) >= 16
        assert content.startswith(offer.probe.nonce)
        assert offer.lease_timeout.ToMilliseconds() == 12_500
        assert not inline.ready.HasField("shared_memory")
        for each in (stream, inline):
            await finished(each)


@pytest.mark.asyncio
async def test_results_in_the_order_sent_keep_it_with_handles_and_chunks() -> None:
    sizes = [(300 - 20 * index, 200) for index in range(12)]
    async with shared_rig(max_shared_memory_bytes=2_000_000) as rig:
        stream = await rig.open_shared(as_sent=True)
        await stream.send(*(make_item(item_id, encoded(png(photo(*size)))) for item_id, size in enumerate(sizes, 1)))
        await finished(stream)
        assert stream.ended_ids == list(range(1, 13))
        assert stream.summary is not None
        assert 0 < stream.summary.fallback_count < 12
        assert (await settle(rig.server)).is_idle
