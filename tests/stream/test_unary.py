"""`Plan` and `GetCapabilities`."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from monopath.v1 import error_pb2, path_pb2, service_pb2, service_pb2_grpc, tensor_pb2
from monopath_server.processors.presets import PRESETS
from tests.support.stream import Rig, preset, running_rig


async def plan(rig: Rig, sizes: list[tuple[int, int]], name: str = "kimi-k2.5", **fields: Any) -> Any:
    stub: Any = service_pb2_grpc.PreprocessingServiceStub(rig.channel)
    request = service_pb2.PlanRequest(processor=preset(name), **fields)
    for item_id, (width_px, height_px) in enumerate(sizes, 1):
        image = request.images.add(id=item_id)
        image.size.width_px, image.size.height_px = width_px, height_px
    return await stub.Plan(request)


def error_info(error: grpc.aio.AioRpcError) -> tuple[str, list[str]]:
    status = status_pb2.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert status.details[0].Unpack(info)
    if len(status.details) > 1:
        status.details[1].Unpack(bad)
    return info.reason, [violation.field for violation in bad.field_violations]


@pytest.mark.asyncio
async def test_plans_come_back_under_their_ids_with_the_tensor_that_was_asked_for() -> None:
    async with running_rig() as rig:
        response = await plan(rig, [(600, 400), (1920, 1080)], data_type=tensor_pb2.DATA_TYPE_BFLOAT16)
    assert [image.id for image in response.images] == [1, 2]
    assert [image.plan.token_count for image in response.images] == [330, 2691]
    assert list(response.images[0].plan.features.shape) == [30 * 44, 3, 14, 14]
    assert response.images[0].plan.features.size_bytes == 30 * 44 * 588 * 2
    assert not response.images[0].HasField("encoder_rank")
    assert not response.encoder_ranks
    assert len(response.config_sha256) == 32
    assert response.processor.kimi.in_patch_limit == 16384


@pytest.mark.asyncio
async def test_images_are_shared_out_to_encoder_ranks_over_the_whole_set() -> None:
    # Patches: 16384, 16900, 4, 1360, 1360, 4 as in the vector of spec/kimi.md 4.3, by the sizes that have them.
    sizes = [(1792, 1792), (2048, 2048), (28, 28), (560, 476), (476, 560), (20, 20)]
    async with running_rig() as rig:
        response = await plan(rig, sizes, encoder_rank_count=4)
    patches = [image.plan.grid_thw.h * image.plan.grid_thw.w for image in response.images]
    assert patches == [16384, 16900, 4, 1360, 1360, 4]
    # Ranks own [1], [0], [3, 2], [4, 5]: the images by their index, largest first.
    assert [image.encoder_rank for image in response.images] == [1, 0, 2, 2, 3, 3]
    loads = {load.rank: load.patch_count for load in response.encoder_ranks}
    assert sum(loads.values()) == sum(patches)
    assert [load.image_count for load in response.encoder_ranks] == [
        sum(image.encoder_rank == rank for image in response.images) for rank in range(4)
    ]


@pytest.mark.asyncio
async def test_a_size_that_cannot_be_planned_has_an_error_of_its_own_and_no_owner() -> None:
    async with running_rig() as rig:
        response = await plan(rig, [(600, 400), (0, 5), (200_000, 5)], encoder_rank_count=2)
    assert response.images[0].HasField("plan")
    assert response.images[1].error.reason == error_pb2.ITEM_ERROR_REASON_IMAGE_SIZE_INVALID
    assert response.images[2].error.reason == error_pb2.ITEM_ERROR_REASON_IMAGE_TOO_LARGE
    assert not response.images[1].HasField("encoder_rank")
    assert sum(load.image_count for load in response.encoder_ranks) == 1


@pytest.mark.asyncio
async def test_ten_thousand_sizes_are_planned_and_one_more_is_refused() -> None:
    async with running_rig() as rig:
        response = await plan(rig, [(100 + n % 900, 50 + n % 700) for n in range(10_000)], encoder_rank_count=64)
        assert len(response.images) == 10_000
        assert sum(load.image_count for load in response.encoder_ranks) == 10_000
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await plan(rig, [(28, 28)] * 10_001)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error_info(caught.value) == ("REQUEST_INVALID", ["images"])


@pytest.mark.asyncio
async def test_every_wrong_field_of_a_plan_request_is_named() -> None:
    request = service_pb2.PlanRequest(processor=preset(), encoder_rank_count=0, data_type=99)  # type: ignore[arg-type]
    for item_id in (1, 1, -3):
        request.images.add(id=item_id).size.width_px = 5
    request.images.add(id=9)
    async with running_rig() as rig:
        stub: Any = service_pb2_grpc.PreprocessingServiceStub(rig.channel)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Plan(request)
        with pytest.raises(grpc.aio.AioRpcError) as caught_config:
            await stub.Plan(service_pb2.PlanRequest())
    reason, fields = error_info(caught.value)
    assert reason == "REQUEST_INVALID"
    assert sorted(fields) == ["data_type", "encoder_rank_count", "images[1].id", "images[2].id", "images[3].size"]
    assert error_info(caught_config.value) == ("CONFIG_INVALID", ["processor.source"])


@pytest.mark.asyncio
async def test_capabilities_tell_what_there_is_and_why_the_rest_is_not() -> None:
    async with running_rig() as rig:
        stub: Any = service_pb2_grpc.PreprocessingServiceStub(rig.channel)
        found = await stub.GetCapabilities(service_pb2.GetCapabilitiesRequest())
    available = {path.path: path.available for path in found.paths}
    assert available == {
        path_pb2.PREPROCESSING_PATH_LOCAL: True,
        path_pb2.PREPROCESSING_PATH_DEFERRED_CUDA: False,
        path_pb2.PREPROCESSING_PATH_DEFERRED_CPU: True,
    }
    assert all(bool(path.unavailable_reason) != path.available for path in found.paths)
    assert {preset.name for preset in found.presets} == set(PRESETS)
    assert all(len(preset.config_sha256) == 32 for preset in found.presets)
    assert {transport.name: transport.available for transport in found.transports} == {
        "inline": True,
        "shared_memory": True,
        "cuda_ipc": False,
    }
    assert {"JPEG", "PNG", "WEBP"} <= set(found.image_formats)
    assert found.contract_version == "1.3.0"
    assert found.limits.max_image_pixels > 0
    assert found.pillow_version
