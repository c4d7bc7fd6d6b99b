"""Tiles, fixed sizes and crops through a whole server: what plans say of them, old clients and new, and LOCAL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import monopath
from monopath import (
    Client,
    Crop,
    FixedSizeConfig,
    InternVlConfig,
    ItemErrorReason,
    KimiVlConfig,
    LocalFeatures,
    RequestRefused,
    Size,
    TileGrid,
    concatenate,
)
from monopath.v1 import config_pb2, geometry_pb2
from monopath_server.embedded import embedded_server
from monopath_server.processors.fixed_size.geometry import ShortestEdgeResize
from monopath_server.processors.types import ElementType
from monopath_server.processors.types import Size as ServerSize
from monopath_server.serving.families.fixed_size import FIXED_SIZE
from monopath_server.serving.families.intern_vl import INTERN_VL as INTERN_VL_ADAPTER
from monopath_server.serving.plans import plan_message
from tests.families.golden import CLIP_PADDED, INTERN_VL_SMALL, cpu_rows, generated_image
from tests.support.server import quick_settings

HALVES = config_pb2.ChannelValues(red=0.5, green=0.5, blue=0.5)
TILES: InternVlConfig = INTERN_VL_ADAPTER.write(INTERN_VL_SMALL).intern_vl
PADDED: FixedSizeConfig = FIXED_SIZE.write(CLIP_PADDED).fixed_size


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with embedded_server(quick_settings()) as address, Client(address) as client:
        yield client


def raw(width_px: int, height_px: int) -> monopath.RawImage:
    return monopath.RawImage(np.asarray(generated_image(ServerSize(width_px, height_px), 3)), "RGB8")


def test_a_client_of_the_contract_without_tiles_finds_all_it_wants() -> None:
    for config, shape in ((INTERN_VL_SMALL, (7, 3, 28, 28)), (CLIP_PADDED, (1, 3, 25, 24))):
        message = plan_message(config.plan(ServerSize(300, 200)), ElementType.FLOAT32)
        for field in ("original_size", "resized_size", "padding", "grid_thw", "features"):
            assert message.HasField(field)
        assert message.grid_thw == geometry_pb2.GridThw()
        assert message.padding == geometry_pb2.Padding()
        assert tuple(message.features.shape) == shape
        assert message.features.size_bytes == 4 * int(np.prod(shape))


def test_plans_say_tiles_fixed_sizes_and_crops(client: Client) -> None:
    [tiles] = client.plan([(300, 200)], config=TILES, data_type="uint8").images
    assert tiles.plan is not None
    assert (tiles.plan.grid_thw, tiles.plan.fixed_size, tiles.plan.crop) == (None, None, None)
    assert tiles.plan.tile_grid == TileGrid(3, 2, has_thumbnail=True, tile_size_px=28)
    assert (tiles.plan.shape, tiles.plan.token_count) == ((7, 3, 28, 28), 7 * 256)
    [fixed] = client.plan([(30, 21)], config=PADDED).images
    assert fixed.plan is not None
    assert (fixed.plan.grid_thw, fixed.plan.tile_grid) == (None, None)
    assert (fixed.plan.resized_size, fixed.plan.fixed_size) == (Size(28, 20), Size(24, 25))
    assert fixed.plan.crop == Crop(2, -2, 24, 25)
    [whole] = client.plan([(30, 21)], preset="siglip-so400m-14-224").images
    assert whole.plan is not None
    assert (whole.plan.fixed_size, whole.plan.crop, whole.plan.token_count) == (Size(224, 224), None, 256)


def test_a_patch_grid_may_lie_on_a_crop(client: Client) -> None:
    config = KimiVlConfig(
        patch_size=14, merge_kernel_size=2, in_token_limit=64, image_mean=HALVES, image_std=HALVES, pad_input=False
    )
    with client.deferred_cpu(config=config, data_type="float32", resample_kernel="pillow_12_2") as stream:
        assert not stream.ready.processor.kimi_vl.pad_input
        [result] = stream.map([raw(225, 223)])
    assert result.plan.grid_thw == monopath.GridThw(1, 8, 8)
    assert result.plan.crop == Crop(2, 2, 112, 112)
    assert result.sha256() == "e46ca9c2ab6757e62c3c0ecab55b8589351b2761cf1849e37a78172177801c16"


def test_features_of_several_images_follow_each_other(client: Client) -> None:
    with client.deferred_cpu(config=TILES, data_type="float32", order="as_sent") as stream:
        results = list(stream.map([raw(300, 200), raw(28, 28)]))
    batch = concatenate(results)
    assert batch.pixel_values.shape == (8, 3, 28, 28)
    assert (batch.row_counts, batch.token_counts) == ((7, 1), (1792, 256))
    assert batch.grid_thws.shape == (0, 3)
    expected = cpu_rows(generated_image(ServerSize(300, 200), 3), INTERN_VL_SMALL, ElementType.FLOAT32)
    assert results[0].array.tobytes() == expected.tobytes()


@pytest.mark.parametrize("config", [TILES, PADDED], ids=["tiles", "fixed size"])
def test_finished_features_come_back_and_their_token_count_is_the_configs(client: Client, config: Any) -> None:
    with client.deferred_cpu(config=config, data_type="uint8") as stream:
        [made] = stream.map([raw(300, 200)])
    with client.deferred_cpu(config=config, data_type="float32") as stream:
        [expected] = stream.map([raw(300, 200)])
    with client.local(config=config, data_type="float32") as local:
        features = LocalFeatures(made.array.copy(), original_size=Size(300, 200), tile_grid=made.plan.tile_grid)
        [back] = local.map([features])
    assert back.array.tobytes() == expected.array.tobytes()
    assert back.plan.token_count == made.plan.token_count


def test_tiles_and_grids_that_are_not_the_plans_are_contradictions(client: Client) -> None:
    array = np.zeros((7, 3, 28, 28), np.uint8)
    lies = (
        LocalFeatures(array, Size(300, 200), tile_grid=TileGrid(2, 3, has_thumbnail=True, tile_size_px=28)),
        LocalFeatures(array, Size(300, 200), monopath.GridThw(1, 2, 3)),
        LocalFeatures(array[:6], Size(300, 200), token_count=1792),
        LocalFeatures(array, Size(300, 200), token_count=1791),
    )
    with client.local(config=TILES, data_type="uint8", order="as_sent") as local:
        errors = [result.error for result in local.map(lies)]
    assert [error.reason for error in errors if error is not None] == [ItemErrorReason.FEATURES_MISMATCH] * 4
    assert [error.field for error in errors if error is not None] == [
        "tile_grid",
        "grid_thw",
        "features.shape",
        "token_count",
    ]
    assert errors[0] is not None
    assert errors[0].message == (
        "Expected tile_grid 3 x 2 tiles of 28 pixels and a thumbnail, got 2 x 3 tiles of 28 pixels and a thumbnail"
    )
    assert errors[1] is not None
    assert errors[1].message == "Expected grid_thw none, got 1 x 2 x 3"
    with client.local(preset="kimi-k2.5", data_type="uint8") as local:
        patches = np.zeros((4, 3, 14, 14), np.uint8)
        tiles = TileGrid(2, 2, has_thumbnail=False, tile_size_px=14)
        [result] = local.map([LocalFeatures(patches, Size(28, 28), monopath.GridThw(1, 2, 2), tile_grid=tiles)])
    assert result.error is not None
    assert result.error.field == "tile_grid"


def test_a_resize_has_to_be_said(client: Client) -> None:
    message = FixedSizeConfig(image_mean=HALVES, image_std=HALVES, crop_size=geometry_pb2.Size(width_px=4, height_px=4))
    with pytest.raises(RequestRefused) as caught:
        client.plan([(1, 1)], config=message)
    assert [(found.field, found.description) for found in caught.value.violations] == [
        ("processor.fixed_size.resize", "Expected one of shortest_edge, exact_size, got none")
    ]


def test_wrong_sizes_are_named_by_their_fields(client: Client) -> None:
    message = FixedSizeConfig(image_mean=HALVES, image_std=HALVES, exact_size=geometry_pb2.Size(height_px=4))
    with pytest.raises(RequestRefused) as caught:
        client.plan([(1, 1)], config=message)
    assert [found.field for found in caught.value.violations] == ["processor.fixed_size.exact_size.width_px"]


def test_every_field_of_a_message_comes_back() -> None:
    for config in (CLIP_PADDED, INTERN_VL_SMALL):
        adapter = FIXED_SIZE if config is CLIP_PADDED else INTERN_VL_ADAPTER
        message = adapter.write(config)
        assert adapter.read(message) == config
        fields = getattr(message, adapter.arm)
        assert len(fields.ListFields()) == len(fields.DESCRIPTOR.fields) - (adapter is FIXED_SIZE)
    assert isinstance(CLIP_PADDED.resize, ShortestEdgeResize)
