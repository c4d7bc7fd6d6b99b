"""StreamDeferredCuda end to end, under Triton's interpreter: the CPU path's bytes, and faults that stay alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from monopath.v1 import event_pb2, image_pb2, path_pb2, service_pb2, service_pb2_grpc, tensor_pb2
from monopath_server.faults import ItemFault, ItemReason
from monopath_server.settings import DeviceMode
from tests.support.case_inputs import case_inputs
from tests.support.server import quick_settings
from tests.support.stream import (
    PathName,
    RawStream,
    encoded,
    make_config,
    make_item,
    photo,
    png,
    preset,
    raw_pixels,
    running_rig,
)

SETTINGS = quick_settings(cuda=DeviceMode.INTERPRETER)
PATHS: tuple[PathName, ...] = ("deferred_cpu", "deferred_cuda")


def images() -> list[image_pb2.ImageSource]:
    pixels = photo(31, 43)
    alpha = np.dstack([pixels, photo(31, 43, seed=1)[..., :1]])
    return [
        encoded(png(photo(60, 44))),
        raw_pixels(pixels.tobytes(), 31, 43),
        raw_pixels(alpha.tobytes(), 31, 43, image_pb2.PIXEL_FORMAT_RGBA8),
        raw_pixels(pixels[..., 0].tobytes(), 31, 43, image_pb2.PIXEL_FORMAT_GRAY8),
        encoded(case_inputs()["p_transparent.png"]),
        encoded(case_inputs()["cmyk.jpg"]),
    ]


@pytest.mark.parametrize("name", ["kimi-k2.5", "kimi-k3"])
@pytest.mark.asyncio
async def test_the_cuda_path_has_the_bytes_of_the_cpu_path(name: str) -> None:
    async with running_rig(SETTINGS) as rig:
        for data_type in (tensor_pb2.DATA_TYPE_BFLOAT16, tensor_pb2.DATA_TYPE_UINT8):
            results: dict[str, RawStream] = {}
            for path in PATHS:
                config = make_config(path, preset(name), data_type=data_type)
                requests = [make_item(item_id, image, path=path) for item_id, image in enumerate(images(), 1)]
                results[path] = await rig.run(requests, config, path)
            for item_id, expected in results["deferred_cpu"].outcomes.items():
                found = results["deferred_cuda"].outcomes[item_id]
                assert expected.completion is not None
                assert found.plan is not None
                assert found.plan.path == path_pb2.PREPROCESSING_PATH_DEFERRED_CUDA
                assert found.sha256 == expected.sha256, f"item {item_id}"
    ready = results["deferred_cuda"].ready
    assert ready is not None
    assert ready.device == "interpreter"
    routes = [outcome.completion.provenance.route for _, outcome in sorted(results["deferred_cuda"].outcomes.items())]
    by_pillow = event_pb2.ROUTE_HOST_PILLOW if name == "kimi-k3" else event_pb2.ROUTE_DEVICE
    assert routes == [event_pb2.ROUTE_DEVICE] * 4 + [by_pillow] * 2


@pytest.mark.asyncio
async def test_capabilities_name_the_device() -> None:
    async with running_rig(SETTINGS) as rig:
        stub: Any = service_pb2_grpc.PreprocessingServiceStub(rig.channel)
        found = await stub.GetCapabilities(service_pb2.GetCapabilitiesRequest())
    assert [path.available for path in found.paths] == [True, True, True]
    assert [device.id for device in found.devices] == ["cpu", "interpreter"]


@pytest.mark.asyncio
async def test_a_device_that_is_not_there_is_refused_by_name() -> None:
    config = make_config("deferred_cuda")
    config.config.device_uuid = "GPU-of-somebody-else"
    async with running_rig(SETTINGS) as rig:
        stream = RawStream(rig.channel, "deferred_cuda")
        await stream.send(config)
        assert await stream.finish() == "FAILED_PRECONDITION"
    assert stream.reason == "DEVICE_UNAVAILABLE"
    assert stream.failure is not None
    assert "GPU-of-somebody-else" in stream.failure.message


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("an illegal memory access"), "INTERNAL"),
        (ItemFault(ItemReason.DEVICE_OUT_OF_MEMORY, "Expected 5 free bytes, got fewer"), "DEVICE_OUT_OF_MEMORY"),
    ],
)
@pytest.mark.asyncio
async def test_only_the_guilty_item_of_a_batch_fails(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from monopath_server.transforms.cuda.transform import CudaTransform

    real = CudaTransform.run_batch

    def failing(transform: CudaTransform, items: Any) -> Any:
        if any(plan.original_size.height_px == 13 for _, plan, _ in items):
            raise error
        return real(transform, items)

    monkeypatch.setattr(CudaTransform, "run_batch", failing)
    heights = [14, 13, 28, 20]
    requests = [
        make_item(item_id, encoded(png(photo(20, height_px))), path="deferred_cuda")
        for item_id, height_px in enumerate(heights, 1)
    ]
    async with running_rig(SETTINGS) as rig:
        stream = await rig.run(requests, make_config("deferred_cuda"), "deferred_cuda")
    assert [stream.outcomes[item_id].reason for item_id in (1, 2, 3, 4)] == ["", reason, "", ""]
    assert "illegal memory" not in str(stream.events)
