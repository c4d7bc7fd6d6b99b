"""What comes of single items, good and bad, and that a bad one costs nobody else anything."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import pytest

from monopath.v1 import (
    config_pb2,
    deferred_cpu_pb2,
    event_pb2,
    image_pb2,
    location_pb2,
    path_pb2,
    service_pb2,
    tensor_pb2,
)
from monopath_server.engine import host
from monopath_server.engine.images import PlannedImage, decode_planned
from tests.support.case_inputs import case_inputs
from tests.support.grammar import Party
from tests.support.server import quick_settings
from tests.support.stream import RawStream, encoded, make_config, make_item, photo, png, raw_pixels, running_rig

GOOD = encoded(png(photo(90, 61)))
DAMAGED_NAMES = (
    "trunc_tail.jpg",
    "trunc_half.jpg",
    "trunc.png",
    "png_second_idat_zeroed.png",
    "empty.bin",
    "text.bin",
    "png_magic_only.bin",
)


@pytest.mark.asyncio
async def test_an_item_ends_with_a_plan_its_features_and_where_they_came_from() -> None:
    data = png(photo(225, 223))
    async with running_rig() as rig:
        stream = await rig.run([make_item(7, encoded(data), label="a label")])
    outcome = stream.outcomes[7]
    assert outcome.plan is not None
    plan = outcome.plan.plan
    assert (plan.grid_thw.t, plan.grid_thw.h, plan.grid_thw.w) == (1, 16, 18)
    assert plan.token_count == 72
    assert list(plan.features.shape) == [288, 3, 14, 14]
    assert plan.features.size_bytes == len(outcome.data) == 288 * 588 * 4
    provenance = outcome.completion.provenance
    assert outcome.completion.label == "a label"
    assert provenance.path == path_pb2.PREPROCESSING_PATH_DEFERRED_CPU
    assert provenance.content_sha256 == hashlib.sha256(data).digest()
    assert stream.ready is not None
    assert provenance.config_sha256 == stream.ready.config_sha256
    assert provenance.resample_kernel == config_pb2.RESAMPLE_KERNEL_PILLOW_13
    assert provenance.route == event_pb2.ROUTE_HOST
    assert stream.summary is not None
    assert (stream.summary.accepted_count, stream.summary.completed_count) == (1, 1)
    assert stream.summary.sent_bytes == len(outcome.data)


@pytest.mark.asyncio
async def test_damaged_files_fail_alone_with_a_clean_reason() -> None:
    requests = [make_item(1, GOOD)]
    names: dict[int, str] = {}
    for name in DAMAGED_NAMES:
        item_id = len(requests) + 1
        names[item_id] = name
        damaged = encoded(case_inputs()[name])
        requests += [make_item(item_id, damaged, label=name), make_item(item_id + 1, GOOD)]
    async with running_rig() as rig:
        stream = await rig.run(requests)
    good_sha256 = stream.outcomes[1].sha256
    for item_id, outcome in stream.outcomes.items():
        if item_id in names:
            assert outcome.reason in ("IMAGE_DAMAGED", "IMAGE_UNSUPPORTED", "IMAGE_EMPTY"), names[item_id]
            assert outcome.error is not None
            assert outcome.error.label == names[item_id]
            for leak in ("/", "Traceback", "Error", "<", "0x"):
                assert leak not in outcome.error.message
        else:
            assert outcome.sha256 == good_sha256
    assert stream.summary is not None
    assert stream.summary.failed_count == len(names)


@pytest.mark.asyncio
async def test_tiny_and_thin_images_have_features_of_their_plan() -> None:
    tiny = {name: data for name, data in case_inputs().items() if name.startswith("tiny_")}
    async with running_rig() as rig:
        stream = await rig.run([make_item(index, encoded(data)) for index, data in enumerate(tiny.values(), 1)])
    for outcome in stream.outcomes.values():
        assert outcome.plan is not None
        assert outcome.plan.plan.token_count >= 1
        assert len(outcome.data) == outcome.plan.plan.features.size_bytes


@pytest.mark.parametrize(
    ("image", "reason", "field"),
    [
        (raw_pixels(b"\0" * 27, 3, 3, image_pb2.PIXEL_FORMAT_UNSPECIFIED), "FIELD_INVALID", "image.pixels.format"),
        (raw_pixels(b"\0" * 27, 3, 3, 99), "FIELD_INVALID", "image.pixels.format"),  # type: ignore[arg-type]
        (raw_pixels(b"", 0, 3), "IMAGE_SIZE_INVALID", ""),
        (raw_pixels(b"", 3, 0), "IMAGE_SIZE_INVALID", ""),
        (raw_pixels(b"\0" * 26, 3, 3), "PIXELS_SIZE_MISMATCH", ""),
        (raw_pixels(b"\0" * 28, 3, 3), "PIXELS_SIZE_MISMATCH", ""),
        (image_pb2.ImageSource(), "FIELD_INVALID", "image.content"),
        (image_pb2.ImageSource(encoded=image_pb2.EncodedImage()), "FIELD_INVALID", "image.encoded.location"),
        (encoded(b""), "IMAGE_EMPTY", ""),
        (
            image_pb2.ImageSource(
                encoded=image_pb2.EncodedImage(shared_memory=location_pb2.SharedMemoryHandle(name="x", length_bytes=1))
            ),
            "LOCATION_UNSUPPORTED",
            "image.encoded.shared_memory",
        ),
    ],
)
@pytest.mark.asyncio
async def test_an_image_that_cannot_be_one_is_an_error_of_its_item(
    image: image_pb2.ImageSource, reason: str, field: str
) -> None:
    async with running_rig() as rig:
        stream = await rig.run([make_item(1, image), make_item(2, GOOD)])
    assert stream.outcomes[1].reason == reason
    assert stream.outcomes[1].error is not None
    assert stream.outcomes[1].error.field == field
    assert stream.outcomes[2].completion is not None


@pytest.mark.parametrize(
    ("pixel_format", "channels", "width_px", "height_px"),
    [
        (image_pb2.PIXEL_FORMAT_RGB8, 3, 3, 3),
        (image_pb2.PIXEL_FORMAT_GRAY8, 1, 3, 3),
        (image_pb2.PIXEL_FORMAT_RGB8, 3, 1, 1000),
        (image_pb2.PIXEL_FORMAT_GRAY8, 1, 1, 1000),
        (image_pb2.PIXEL_FORMAT_RGB8, 3, 300, 3),
        (image_pb2.PIXEL_FORMAT_GRAY8, 1, 300, 3),
    ],
)
@pytest.mark.asyncio
async def test_raw_pixels_give_the_features_of_a_file_with_the_same_pixels(
    pixel_format: image_pb2.PixelFormat.ValueType, channels: int, width_px: int, height_px: int
) -> None:
    pixels = photo(width_px, height_px)[..., :channels].squeeze(-1) if channels == 1 else photo(width_px, height_px)
    raw = raw_pixels(pixels.tobytes(), width_px, height_px, pixel_format)
    async with running_rig() as rig:
        stream = await rig.run([make_item(1, raw), make_item(2, encoded(png(pixels)))])
    assert stream.outcomes[1].sha256 == stream.outcomes[2].sha256


@pytest.mark.asyncio
async def test_an_image_over_a_limit_is_refused_with_both_numbers() -> None:
    settings = quick_settings(max_feature_bytes=100_000)
    async with running_rig(settings) as rig:
        stream = await rig.run([make_item(1, encoded(png(photo(300, 300)))), make_item(2, encoded(png(photo(20, 20))))])
    assert stream.outcomes[1].reason == "FEATURES_TOO_LARGE"
    assert stream.outcomes[1].error is not None
    assert "100000" in stream.outcomes[1].error.message
    assert str(22 * 22 * 588 * 4) in stream.outcomes[1].error.message
    assert stream.outcomes[2].completion is not None


@pytest.mark.asyncio
async def test_a_wrong_content_digest_is_found_before_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded_ids: list[int] = []

    def recording(planned: PlannedImage, *arguments: Any) -> Any:
        decoded_ids.append(planned.item.id)
        return decode_planned(planned, *arguments)

    monkeypatch.setattr(host, "decode_planned", recording)
    data = png(photo(40, 40))
    wrong, right, short = (
        service_pb2.StreamDeferredCpuRequest(
            item=deferred_cpu_pb2.DeferredCpuItem(id=item_id, image=encoded(data), expected_sha256=digest)
        )
        for item_id, digest in ((1, bytes(32)), (2, hashlib.sha256(data).digest()), (3, b"short"))
    )
    async with running_rig() as rig:
        stream = await rig.run([wrong, right, short])
    assert stream.outcomes[1].reason == "CONTENT_DIGEST_MISMATCH"
    assert stream.outcomes[2].completion is not None
    assert stream.outcomes[3].reason == "FIELD_INVALID"
    assert decoded_ids == [2]


@pytest.mark.parametrize("ids", [[1, 1], [2, 1], [0], [-5]])
@pytest.mark.asyncio
async def test_an_id_that_does_not_grow_ends_the_stream_after_its_accepted_items(ids: list[int]) -> None:
    async with running_rig() as rig:
        stream = await rig.open()
        await stream.send(*(make_item(item_id, GOOD) for item_id in ids))
        assert await stream.finish(check=Party.SERVER) == "INVALID_ARGUMENT"
    assert stream.reason == "ITEM_ID_INVALID"
    accepted = ids[:1] if ids[0] > 0 else []
    assert stream.ended_ids == accepted


@pytest.mark.parametrize("data_type", [number for number in tensor_pb2.DataType.values() if number != 0])
@pytest.mark.asyncio
async def test_every_element_type_has_the_bytes_of_its_plan(data_type: tensor_pb2.DataType.ValueType) -> None:
    async with running_rig() as rig:
        stream = await rig.run([make_item(1, GOOD)], make_config(data_type=data_type))
    plan = stream.outcomes[1].plan
    assert plan is not None
    assert plan.plan.features.data_type == data_type
    assert plan.plan.features.size_bytes == len(stream.outcomes[1].data)


@pytest.mark.asyncio
async def test_chunks_have_the_size_that_the_client_asked_for() -> None:
    async with running_rig() as rig:
        stream = await rig.run([make_item(1, encoded(png(photo(200, 200))))], make_config(chunk_bytes=4096))
    sizes = [len(event.features.chunk.data) for event in stream.events if event.WhichOneof("payload") == "features"]
    assert set(sizes[:-1]) == {4096}
    assert sum(sizes) == len(stream.outcomes[1].data)


@pytest.mark.asyncio
async def test_nothing_is_decoded_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[int] = set()

    def recording(*arguments: Any) -> Any:
        threads.add(threading.get_ident())
        return decode_planned(*arguments)

    monkeypatch.setattr(host, "decode_planned", recording)
    async with running_rig() as rig:
        await rig.run([make_item(item_id, GOOD) for item_id in range(1, 9)])
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.asyncio
async def test_a_fault_of_the_server_is_told_without_its_words(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(planned: PlannedImage, *arguments: Any) -> Any:
        if planned.item.id == 2:
            raise OSError("secret path /etc/shadow")
        return decode_planned(planned, *arguments)

    monkeypatch.setattr(host, "decode_planned", failing)
    async with running_rig() as rig:
        stream = await rig.run([make_item(item_id, GOOD) for item_id in (1, 2, 3)])
    assert stream.outcomes[2].reason == "INTERNAL"
    assert stream.outcomes[2].error is not None
    assert "secret" not in stream.outcomes[2].error.message
    assert "secret path" in caplog.text
    assert stream.outcomes[1].sha256 == stream.outcomes[3].sha256


@pytest.mark.asyncio
async def test_no_memory_for_an_item_is_its_own_error_and_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def starving(planned: PlannedImage, *arguments: Any) -> Any:
        if planned.item.id == 1:
            raise MemoryError
        return decode_planned(planned, *arguments)

    monkeypatch.setattr(host, "decode_planned", starving)
    async with running_rig() as rig:
        stream = await rig.run([make_item(1, GOOD), make_item(2, GOOD)])
    assert stream.outcomes[1].reason == "OVERLOADED"
    assert stream.outcomes[1].error is not None
    assert stream.outcomes[1].error.HasField("retry_after")
    assert stream.outcomes[2].completion is not None


@pytest.mark.asyncio
async def test_a_release_of_inline_features_is_harmless() -> None:
    release = service_pb2.StreamDeferredCpuRequest(release=event_pb2.Release(id=1))
    async with running_rig() as rig:
        stream = await rig.run([make_item(1, GOOD), release, make_item(2, GOOD)])
    assert stream.ended_ids == [1, 2] or stream.ended_ids == [2, 1]


@pytest.mark.parametrize("arm", ["release", "cancellation"])
@pytest.mark.asyncio
async def test_an_id_that_was_never_sent_cannot_be_released_or_cancelled(arm: str) -> None:
    async with running_rig() as rig:
        stream: RawStream = await rig.open()
        message = event_pb2.Release(id=5) if arm == "release" else event_pb2.Cancellation(id=5)
        await stream.send(service_pb2.StreamDeferredCpuRequest(**{arm: message}))  # type: ignore[arg-type]
        assert await stream.finish(check=Party.SERVER) == "INVALID_ARGUMENT"
    assert stream.reason == "ITEM_ID_INVALID"
