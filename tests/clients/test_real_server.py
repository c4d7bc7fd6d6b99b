"""Both clients against the real server: the same bytes as the reference, whatever way they go."""

from __future__ import annotations

import asyncio
import io
import pathlib
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pytest
from PIL import Image

from monopath import (
    AsyncClient,
    Client,
    GridThw,
    Item,
    LocalFeatures,
    RawImage,
    Result,
    Size,
    StreamErrorReason,
    StreamRefused,
    concatenate,
)
from tests.clients.drivers import KINDS
from tests.support.server import running_server

_ValueT = TypeVar("_ValueT")
pytestmark = pytest.mark.asyncio
PRESET = "kimi-k3"


def _pixels(width_px: int, height_px: int) -> Any:
    return np.random.default_rng(width_px).integers(0, 256, (height_px, width_px, 3), dtype=np.uint8)


def _png(pixels: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


async def _in_thread(run: Callable[[], _ValueT]) -> _ValueT:
    """Run the sync client beside the server, which needs this loop."""
    return await asyncio.wait_for(asyncio.to_thread(run), 60)


async def _map(kind: str, address: str, method: str, images: list[Any], **arguments: Any) -> list[Result[Any]]:
    arguments = {"preset": PRESET, "data_type": "float32", **arguments}

    def run() -> list[Result[Any]]:
        with Client(address) as client, getattr(client, method)(**arguments) as stream:
            return list(stream.map(images))

    if kind == "sync":
        return await _in_thread(run)
    async with AsyncClient(address) as client, getattr(client, method)(**arguments) as stream:
        return [result async for result in stream.map(images)]


@KINDS
async def test_every_form_of_an_image_gives_the_same_features(kind: str, tmp_path: pathlib.Path) -> None:
    pixels = _pixels(61, 47)
    file = tmp_path / "image.png"
    file.write_bytes(_png(pixels))
    wide = np.zeros((47, 122, 3), np.uint8)
    wide[:, ::2] = pixels
    images = [_png(pixels), file, RawImage(pixels, "RGB8"), Item(RawImage(wide[:, ::2], "RGB8"), label="strided")]
    async with running_server() as address:
        results = await _map(kind, address, "deferred_cpu", images, order="as_sent")
    assert [result.label for result in results] == ["", "", "", "strided"]
    assert len({result.sha256() for result in results}) == 1
    assert results[0].plan.original_size == Size(61, 47)
    grid = results[0].plan.grid_thw
    assert grid is not None
    assert results[0].array.shape == (grid.t * grid.h * grid.w, 3, 14, 14)


@KINDS
@pytest.mark.parametrize("data_type", ["uint8", "float32", "float16", "bfloat16"])
async def test_features_that_go_back_on_the_local_path_keep_their_bits(kind: str, data_type: str) -> None:
    async with running_server() as address:
        (made,) = await _map(kind, address, "deferred_cpu", [_png(_pixels(120, 90))], data_type=data_type)
        plan = made.plan
        for features in (made.array, made.torch()):
            local = LocalFeatures(features, plan.original_size, plan.grid_thw, plan.token_count)
            (returned,) = await _map(kind, address, "local", [local], data_type=data_type)
            returned.raise_for_error()
            assert returned.sha256() == made.sha256()
            assert returned.provenance.config_sha256 == made.provenance.config_sha256
        unsaid = LocalFeatures(made.array, plan.original_size, plan.grid_thw)
        assert (await _map(kind, address, "local", [unsaid], data_type=data_type))[0].ok


@KINDS
async def test_many_images_of_many_sizes_come_back_once_each(kind: str) -> None:
    sizes = [(16 + 7 * index, 200 - 3 * index) for index in range(40)]
    images = [Item(RawImage(_pixels(*size), "RGB8"), label=f"{size[0]}x{size[1]}") for size in sizes]
    async with running_server() as address:
        results = await _map(kind, address, "deferred_cpu", images, data_type="bfloat16")
    assert sorted(result.id for result in results) == list(range(1, 41))
    for result in results:
        size = result.plan.original_size
        assert result.label == f"{size.width_px}x{size.height_px}"
    batch = concatenate(results)
    assert batch.grid_thws.prod(axis=1).sum() == len(batch.pixel_values)


@KINDS
async def test_bad_items_are_values_and_their_neighbours_are_served(kind: str) -> None:
    good = _png(_pixels(30, 30))
    images = [good, b"", b"no image at all", good[: len(good) // 2], Item(good, expected_sha256=b"x" * 32), good]
    async with running_server() as address:
        results = await _map(kind, address, "deferred_cpu", images, order="as_sent")
    assert [result.error and result.error.reason for result in results] == [
        None,
        "IMAGE_EMPTY",
        "IMAGE_UNSUPPORTED",
        "IMAGE_DAMAGED",
        "CONTENT_DIGEST_MISMATCH",
        None,
    ]


@KINDS
async def test_features_that_lie_about_their_grid_are_an_items_error(kind: str) -> None:
    features = LocalFeatures(np.zeros((4, 3, 14, 14), np.float32), Size(28, 28), GridThw(1, 4, 1), token_count=1)
    async with running_server() as address:
        (result,) = await _map(kind, address, "local", [features])
    assert result.error is not None
    assert result.error.reason == "FEATURES_MISMATCH"


@KINDS
async def test_a_config_that_lacks_keys_is_refused_with_all_of_them(kind: str) -> None:
    async with running_server() as address:
        with pytest.raises(StreamRefused) as caught:
            await _map(kind, address, "deferred_cpu", [], preset=None, checkpoint_json='{"media_proc_cfg": {}}')
    assert caught.value.reason is StreamErrorReason.CONFIG_INVALID
    fields = {violation.field for violation in caught.value.violations}
    assert {"media_proc_cfg.patch_size", "media_proc_cfg.image_std"} <= fields


@KINDS
async def test_a_server_without_a_gpu_refuses_the_cuda_path(kind: str) -> None:
    async with running_server() as address:
        with pytest.raises(StreamRefused) as caught:
            await _map(kind, address, "deferred_cuda", [b"a"])
    assert caught.value.reason is StreamErrorReason.DEVICE_UNAVAILABLE


async def test_leaving_early_leaves_the_stream_usable() -> None:
    images = [_png(_pixels(200 + index, 200)) for index in range(30)]

    def run(address: str) -> int:
        with Client(address) as client, client.deferred_cpu(preset=PRESET, data_type="uint8") as stream:
            for _result in stream.map(images):
                break
            count = len(list(stream.map(images[:3])))
        assert stream.summary is not None
        return count

    async with running_server() as address:
        assert await _in_thread(lambda: run(address)) == 3


async def test_plans_from_sizes_alone_are_those_of_the_stream() -> None:
    async with running_server() as address:
        (made,) = await _map("asyncio", address, "deferred_cpu", [_png(_pixels(123, 77))])
        async with AsyncClient(address) as client:
            reply = await client.plan([(123, 77)], preset=PRESET, data_type="float32", encoder_rank_count=2)
            able = await client.capabilities()
    assert reply.images[0].plan == made.plan
    assert reply.config_sha256 == made.provenance.config_sha256
    assert reply.images[0].encoder_rank in (0, 1)
    assert PRESET in {preset.name for preset in able.presets}
    assert {path.name: path.available for path in able.paths}["DEFERRED_CPU"]


async def test_the_table_of_the_opening_finishes_uint8_features() -> None:
    image = _png(_pixels(64, 64))
    async with running_server() as address:
        (finished,) = await _map("asyncio", address, "deferred_cpu", [image])
        async with (
            AsyncClient(address) as client,
            client.deferred_cpu(preset=PRESET, data_type="uint8") as stream,
        ):
            table = stream.ready.normalize_table
            (raw,) = [result async for result in stream.map([image])]
    assert table is not None
    looked_up = np.stack([table[channel][raw.array[:, channel]] for channel in range(3)], axis=1)
    np.testing.assert_array_equal(looked_up, finished.array)
