"""StreamLocal: finished features are held to the plan of their original size, converted and handed back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from monopath.v1 import event_pb2, local_pb2, location_pb2, path_pb2, service_pb2, tensor_pb2
from tests.support.grammar import Party
from tests.support.server import quick_settings
from tests.support.stream import RawStream, Rig, encoded, make_config, make_item, photo, png, running_rig

SIZE = (60, 44)
"""Padded to 84 x 56: a grid of 1 x 4 x 6."""


def header(item_id: int, **changes: Any) -> local_pb2.LocalItem:
    item = local_pb2.LocalItem(id=item_id, label=f"item {item_id}", token_count=6)
    item.original_size.width_px, item.original_size.height_px = SIZE
    item.grid_thw.t, item.grid_thw.h, item.grid_thw.w = 1, 4, 6
    item.features.data_type = changes.pop("data_type", tensor_pb2.DATA_TYPE_FLOAT32)
    item.features.shape.extend(changes.pop("shape", (24, 3, 14, 14)))
    item.features.size_bytes = changes.pop("size_bytes", 24 * 588 * 4)
    for path, value in changes.items():
        *parents, name = path.split("__")
        message: Any = item
        for parent in parents:
            message = getattr(message, parent)
        setattr(message, name, value)
    return item


def announce(item: local_pb2.LocalItem) -> Any:
    return service_pb2.StreamLocalRequest(item=item)


def chunk(item_id: int, offset_bytes: int, data: bytes) -> Any:
    return service_pb2.StreamLocalRequest(
        item_features=local_pb2.LocalItemFeatures(
            id=item_id, chunk=location_pb2.FeatureChunk(offset_bytes=offset_bytes, data=data)
        )
    )


def whole(item_id: int, data: bytes, chunk_bytes: int = 10_000, **changes: Any) -> list[Any]:
    chunks = [chunk(item_id, start, data[start : start + chunk_bytes]) for start in range(0, len(data), chunk_bytes)]
    return [announce(header(item_id, **changes)), *chunks]


async def deferred_bytes(rig: Rig, data_type: tensor_pb2.DataType.ValueType) -> bytes:
    stream = await rig.run([make_item(1, encoded(png(photo(*SIZE))))], make_config(data_type=data_type))
    return bytes(stream.outcomes[1].data)


@pytest.mark.parametrize("target", [number for number in tensor_pb2.DataType.values() if number != 0])
@pytest.mark.asyncio
async def test_features_come_back_in_the_streams_element_type_as_the_deferred_path_makes_them(
    target: tensor_pb2.DataType.ValueType,
) -> None:
    sources = [tensor_pb2.DATA_TYPE_UINT8]
    if target != tensor_pb2.DATA_TYPE_UINT8:
        sources.append(tensor_pb2.DATA_TYPE_FLOAT32)
    async with running_rig() as rig:
        expected = await deferred_bytes(rig, target)
        for source in sources:
            data = await deferred_bytes(rig, source)
            requests = whole(1, data, data_type=source, size_bytes=len(data))
            stream = await rig.run(requests, make_config("local", data_type=target), "local")
            assert bytes(stream.outcomes[1].data) == expected
            assert stream.outcomes[1].completion.label == "item 1"
            assert stream.outcomes[1].completion.provenance.path == path_pb2.PREPROCESSING_PATH_LOCAL
            assert stream.outcomes[1].completion.provenance.route == event_pb2.ROUTE_CLIENT


@pytest.mark.asyncio
async def test_chunks_of_several_items_may_interleave() -> None:
    async with running_rig() as rig:
        data = await deferred_bytes(rig, tensor_pb2.DATA_TYPE_FLOAT32)
        first, second = whole(1, data), whole(2, data[::-1])
        interleaved = [request for pair in zip(first, second, strict=True) for request in pair]
        stream = await rig.run(interleaved, make_config("local"), "local")
    assert bytes(stream.outcomes[1].data) == data
    assert bytes(stream.outcomes[2].data) == data[::-1]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"token_count": 7}, "token_count"),
        ({"grid_thw__h": 6}, "grid_thw"),
        ({"grid_thw__t": 2}, "grid_thw"),
        ({"original_size__width_px": 600}, "grid_thw"),
        ({"shape": (24, 3, 14)}, "features.shape"),
        ({"shape": (588, 24)}, "features.shape"),
        ({"size_bytes": 24 * 588 * 4 - 1}, "features.size_bytes"),
        ({"size_bytes": 24 * 588 * 2}, "features.size_bytes"),
        ({"data_type": tensor_pb2.DATA_TYPE_BFLOAT16}, "features.size_bytes"),
    ],
)
@pytest.mark.asyncio
async def test_features_that_lie_are_an_error_that_names_the_field(changes: dict[str, Any], field: str) -> None:
    async with running_rig() as rig:
        data = await deferred_bytes(rig, tensor_pb2.DATA_TYPE_FLOAT32)
        stream = await rig.open(make_config("local"), "local")
        await stream.send(*whole(1, data, **changes), *whole(2, data))
        assert await stream.finish(check=Party.SERVER) == "OK"
    assert stream.outcomes[1].reason == "FEATURES_MISMATCH"
    assert stream.outcomes[1].error is not None
    assert stream.outcomes[1].error.field == field
    assert "Expected" in stream.outcomes[1].error.message
    assert bytes(stream.outcomes[2].data) == data


@pytest.mark.asyncio
async def test_normalised_features_cannot_become_pixels_again() -> None:
    async with running_rig() as rig:
        data = await deferred_bytes(rig, tensor_pb2.DATA_TYPE_FLOAT32)
        config = make_config("local", data_type=tensor_pb2.DATA_TYPE_UINT8)
        stream = await rig.run(whole(1, data), config, "local")
    assert stream.outcomes[1].reason == "FEATURES_MISMATCH"
    assert stream.outcomes[1].error is not None
    assert stream.outcomes[1].error.field == "features.data_type"


@pytest.mark.parametrize(
    ("data_type", "value"), [(tensor_pb2.DATA_TYPE_FLOAT16, 65520.0), (tensor_pb2.DATA_TYPE_BFLOAT16, -3.4028235e38)]
)
@pytest.mark.asyncio
async def test_a_value_that_becomes_infinite_in_the_streams_element_type_is_refused_with_its_place(
    data_type: tensor_pb2.DataType.ValueType, value: float
) -> None:
    async with running_rig() as rig:
        elements = np.frombuffer(await deferred_bytes(rig, tensor_pb2.DATA_TYPE_FLOAT32), "<f4").copy()
        elements[4711] = value
        stream = await rig.run(whole(1, elements.tobytes()), make_config("local", data_type=data_type), "local")
    assert stream.outcomes[1].reason == "FEATURES_NOT_FINITE"
    assert stream.outcomes[1].error is not None
    assert "4711" in stream.outcomes[1].error.message


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.asyncio
async def test_features_that_are_not_finite_are_refused_with_their_place(value: float) -> None:
    async with running_rig() as rig:
        elements = np.frombuffer(await deferred_bytes(rig, tensor_pb2.DATA_TYPE_FLOAT32), "<f4").copy()
        elements[4711] = value
        stream = await rig.run(whole(1, elements.tobytes()), make_config("local"), "local")
    assert stream.outcomes[1].reason == "FEATURES_NOT_FINITE"
    assert stream.outcomes[1].error is not None
    assert "4711" in stream.outcomes[1].error.message


@pytest.mark.parametrize(
    ("offsets", "reason"),
    [
        ([0, 20_000], "FEATURES_INCOMPLETE"),
        ([0, 0], "FEATURES_INCOMPLETE"),
        ([0], "FEATURES_INCOMPLETE"),
        ([], "FEATURES_INCOMPLETE"),
        ([56_000], "FEATURES_INCOMPLETE"),
    ],
    ids=["a gap", "an overlap", "too few", "none", "past the end"],
)
@pytest.mark.asyncio
async def test_missing_or_overlapping_chunks_fail_their_item_alone(offsets: list[int], reason: str) -> None:
    async with running_rig() as rig:
        data = await deferred_bytes(rig, tensor_pb2.DATA_TYPE_FLOAT32)
        stream = await rig.open(make_config("local"), "local")
        await stream.send(announce(header(1)), *(chunk(1, offset, data[:10_000]) for offset in offsets))
        await stream.send(*whole(2, data))
        assert await stream.finish(check=Party.SERVER) == "OK"
    assert stream.outcomes[1].reason == reason
    assert bytes(stream.outcomes[2].data) == data


@pytest.mark.asyncio
async def test_chunks_of_an_item_that_was_never_announced_end_the_stream() -> None:
    async with running_rig() as rig:
        stream = await rig.open(make_config("local"), "local")
        await stream.send(chunk(1, 0, b"x" * 100))
        assert await stream.finish(check=Party.SERVER) == "INVALID_ARGUMENT"
    assert stream.reason == "ITEM_ID_INVALID"


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        (local_pb2.LocalItemFeatures(id=1), "FIELD_INVALID"),
        (
            local_pb2.LocalItemFeatures(id=1, shared_memory=location_pb2.SharedMemoryHandle(name="x")),
            "LOCATION_UNSUPPORTED",
        ),
        (local_pb2.LocalItemFeatures(id=1, chunk=location_pb2.FeatureChunk()), "FIELD_INVALID"),
    ],
)
@pytest.mark.asyncio
async def test_bytes_that_are_nowhere_fail_their_item(features: local_pb2.LocalItemFeatures, reason: str) -> None:
    async with running_rig() as rig:
        stream = await rig.open(make_config("local"), "local")
        await stream.send(announce(header(1)), service_pb2.StreamLocalRequest(item_features=features))
        assert await stream.finish(check=Party.SERVER) == "OK"
    assert stream.outcomes[1].reason == reason


@pytest.mark.asyncio
async def test_announcements_without_bytes_cannot_fill_the_memory() -> None:
    async with running_rig(quick_settings(max_unfinished_items=4)) as rig:
        stream: RawStream = await rig.open(make_config("local"), "local")
        await stream.send(*(announce(header(item_id)) for item_id in range(1, 11)))
        assert await stream.finish(check=Party.SERVER) == "OK"
    reasons = [stream.outcomes[item_id].reason for item_id in range(1, 11)]
    assert reasons[:4] == ["FEATURES_INCOMPLETE"] * 4
    assert "OVERLOADED" in reasons[4:]


@pytest.mark.asyncio
async def test_a_local_item_can_be_cancelled_while_its_bytes_are_still_to_come() -> None:
    cancel = service_pb2.StreamLocalRequest(cancellation=event_pb2.Cancellation(id=1))
    async with running_rig() as rig:
        data = await deferred_bytes(rig, tensor_pb2.DATA_TYPE_FLOAT32)
        stream = await rig.open(make_config("local"), "local")
        await stream.send(announce(header(1)), chunk(1, 0, data[:100]), cancel, chunk(1, 100, data[100:]))
        await stream.send(*whole(2, data))
        assert await stream.finish(check=Party.SERVER) == "OK"
    assert stream.outcomes[1].reason == "CANCELLED"
    assert bytes(stream.outcomes[2].data) == data
