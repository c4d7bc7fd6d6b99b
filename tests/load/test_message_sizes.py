"""Case 8: requests around the limits through three clients, and features of 50 MB that need no raised limit."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from monopath import AsyncClient, Client
from monopath.v1 import service_pb2
from monopath_server.media.limits import ImageLimits
from tests.contract.buf import BUF
from tests.contract.programs import run_program
from tests.support.footprint import forget_peak, peak_rss_bytes, rss_bytes
from tests.support.options import BASELINE, SERVICE
from tests.support.processes import serving
from tests.support.server import quick_settings, running_server
from tests.support.stream import RawStream, encoded, make_config, make_item, photo, png

MOST_IMAGE_BYTES = 5_000_000
SETTINGS = quick_settings(image_limits=ImageLimits(max_encoded_bytes=MOST_IMAGE_BYTES))
GRPC_DEFAULT_BYTES = 4 * 1024 * 1024
SMALL = png(photo(50, 40))
SQUARE_OF_50_MB = {
    "patch_size": 16,
    "merge_kernel_size": 2,
    "in_patch_limit": 16384,
    "patch_limit_on_one_side": 512,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
"""Of an image of 2048 x 2048 it makes 128 x 128 patches of 16 x 16 pixels in three channels."""
FEATURE_BYTES_OF_50_MB = 2048 * 2048 * 3 * 4

Answer = tuple[str, str, int]
"""Reason of the item's error (or empty), its text, and bytes of its features."""


def padded(size_bytes: int) -> bytes:
    """A small image in a file of that size: what follows a PNG's end is nobody's."""
    return SMALL + bytes(size_bytes - len(SMALL))


def image_for_request_of(size_bytes: int) -> bytes:
    """The image of a request that has exactly that size on the wire."""
    image = padded(size_bytes - 64)
    image = padded(size_bytes - (make_item(1, encoded(image)).ByteSize() - len(image)))
    assert make_item(1, encoded(image)).ByteSize() == size_bytes
    return image


async def by_sync_client(address: str, image: bytes, processor: dict[str, Any]) -> Answer:
    def run() -> Answer:
        with Client(address) as client, client.deferred_cpu(**processor, data_type="float32") as stream:
            (result,) = stream.map([image])
            return _answer(result)

    return await asyncio.to_thread(run)


async def by_async_client(address: str, image: bytes, processor: dict[str, Any]) -> Answer:
    async with AsyncClient(address) as client, client.deferred_cpu(**processor, data_type="float32") as stream:
        (result,) = [result async for result in stream.map([image])]
        return _answer(result)


async def by_buf(address: str, image: bytes, processor: dict[str, Any]) -> Answer:
    """A client that shares no code with ours, and that writes everything before it reads."""
    source = (
        {"preset": {"name": processor["preset"]}}
        if "preset" in processor
        else {"checkpoint": {"preprocessorConfigJson": processor["checkpoint_json"]}}
    )
    output = {"dataType": "DATA_TYPE_FLOAT32", "order": "RESULT_ORDER_AS_SENT", "inline": {}}
    requests = (
        {"config": {"processor": source, "output": output}},
        {"item": {"id": 1, "image": {"encoded": {"data": base64.b64encode(image).decode()}}}},
    )
    url = f"http://{address}/{SERVICE.full_name}/StreamDeferredCpu"
    options = ("--schema", BASELINE, "--protocol", "grpc", "--http2-prior-knowledge", "--emit-defaults")
    result = await asyncio.to_thread(
        run_program, [BUF, "curl", *options, "--data", "@-", url], stdin="\n".join(map(json.dumps, requests))
    )
    assert result.returncode == 0, result.stderr[:1000]
    decoder, text, position = json.JSONDecoder(), result.stdout.strip(), 0
    reason, message, feature_bytes = "", "", 0
    while position < len(text):
        event, position = decoder.raw_decode(text, position)
        position += len(text[position : position + 2]) - len(text[position : position + 2].lstrip())
        if "features" in event:
            feature_bytes += len(base64.b64decode(event["features"]["chunk"]["data"]))
        if "error" in event:
            reason = event["error"]["reason"].removeprefix("ITEM_ERROR_REASON_")
            message = event["error"]["message"]
    return reason, message, feature_bytes


def _answer(result: Any) -> Answer:
    if result.error is not None:
        return str(result.error.reason), result.error.message, 0
    return "", "", result.array.nbytes


CLIENTS = pytest.mark.parametrize(
    "ask", [by_sync_client, by_async_client, by_buf], ids=lambda client: client.__name__.removeprefix("by_")
)
Ask = Callable[[str, bytes, dict[str, Any]], Awaitable[Answer]]
PRESET = {"preset": "kimi-k2.5"}


@CLIENTS
@pytest.mark.asyncio
async def test_requests_around_the_limits_are_answered_or_refused_with_both_numbers(ask: Ask) -> None:
    async with running_server(SETTINGS) as address:
        expected = await ask(address, SMALL, PRESET)
        assert expected[0] == ""
        assert expected[2] > 0
        over_the_default = image_for_request_of(GRPC_DEFAULT_BYTES + 1)
        for image in (over_the_default, padded(MOST_IMAGE_BYTES - 1), padded(MOST_IMAGE_BYTES)):
            assert await ask(address, image, PRESET) == expected
        reason, message, _ = await ask(address, padded(MOST_IMAGE_BYTES + 1), PRESET)
        assert reason == "IMAGE_BYTES_EXCEEDED"
        assert str(MOST_IMAGE_BYTES) in message
        assert str(MOST_IMAGE_BYTES + 1) in message


@CLIENTS
@pytest.mark.asyncio
async def test_features_of_fifty_megabytes_need_no_raised_limit(ask: Ask) -> None:
    processor = {"checkpoint_json": json.dumps(SQUARE_OF_50_MB)}
    image = png(photo(64, 64).repeat(32, axis=0).repeat(32, axis=1))
    async with running_server() as address:
        assert await ask(address, image, processor) == ("", "", FEATURE_BYTES_OF_50_MB)


@pytest.mark.asyncio
async def test_a_request_over_the_messages_own_limit_ends_its_stream_alone() -> None:
    async with running_server(SETTINGS) as address, grpc.aio.insecure_channel(address) as channel:
        stream = RawStream(channel, "deferred_cpu")
        await stream.send(make_config())
        await stream.read_until("ready")
        await stream.send(make_item(1, encoded(padded(SETTINGS.max_request_bytes + 1))))
        assert await stream.finish(grammar=False) == "RESOURCE_EXHAUSTED"
        details = await stream.call.details()
        assert str(SETTINGS.max_request_bytes) in details
        assert (await by_async_client(address, SMALL, PRESET))[0] == ""


STREAM_COUNT = 100
ITEMS_PER_STREAM = 5
LIMIT_BYTES = 1_000_000
PROCESS_BYTES = 16_000_000
MESSAGE_COPIES = 2
"""A request is there as gRPC received it and as the message that was made of it, until its item is refused or ends."""
SLACK_BYTES = 100_000_000
"""What threads, streams and gRPC itself need; all requests together are 500 MB, in one copy."""


@pytest.mark.asyncio
async def test_five_hundred_requests_of_the_largest_size_are_bounded_by_the_budget_and_one_message_a_stream() -> None:
    limits = ("--max-image-bytes", str(LIMIT_BYTES), "--max-process-bytes", str(PROCESS_BYTES))
    image = encoded(padded(LIMIT_BYTES))
    ends: Counter[str] = Counter()

    async def one(channel: grpc.aio.Channel, item_count: int) -> None:
        stream = RawStream(channel, "deferred_cpu")
        await stream.send(make_config())
        await stream.read_until("ready")
        await stream.send(*(make_item(item_id, image) for item_id in range(1, item_count + 1)))
        assert await stream.finish() == "OK"
        for outcome in stream.outcomes.values():
            ends[outcome.reason or "completed"] += 1
            if outcome.error is not None:
                assert str(PROCESS_BYTES) in outcome.error.message
                assert outcome.error.HasField("retry_after")

    with serving("--address", "127.0.0.1:0", "--cuda", "off", "--cache-bytes", "0", *limits) as server:
        async with grpc.aio.insecure_channel(server.address) as channel:
            await one(channel, 1)
            before_bytes = rss_bytes(server.pid)
            forget_peak(server.pid)
            await asyncio.gather(*(one(channel, ITEMS_PER_STREAM) for _ in range(STREAM_COUNT)))
            growth_bytes = peak_rss_bytes(server.pid) - before_bytes
            assert set(ends) <= {"completed", "OVERLOADED"}
            assert ends.total() == STREAM_COUNT * ITEMS_PER_STREAM + 1
            assert ends["completed"] > 1
            await one(channel, 1)
    assert growth_bytes < PROCESS_BYTES + STREAM_COUNT * MESSAGE_COPIES * LIMIT_BYTES + SLACK_BYTES


def test_the_request_of_the_size_that_grpc_refuses_by_default_is_a_request() -> None:
    image = image_for_request_of(GRPC_DEFAULT_BYTES + 1)
    request = service_pb2.StreamDeferredCpuRequest.FromString(make_item(1, encoded(image)).SerializeToString())
    assert request.item.image.encoded.data == image
