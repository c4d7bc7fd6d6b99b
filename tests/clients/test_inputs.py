"""What a caller gives: images, configs, sizes; and what is refused before anything is sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from monopath import (
    AsyncClient,
    Client,
    GridThw,
    Item,
    ItemError,
    KimiConfig,
    LocalFeatures,
    Padding,
    PlanReply,
    ProcessorConfig,
    RawImage,
    Size,
)
from monopath.v1 import config_pb2, error_pb2, event_pb2, image_pb2, path_pb2, service_pb2, tensor_pb2
from tests.clients import wire
from tests.clients.drivers import ARGUMENTS, map_all
from tests.clients.fake_server import Servicer, answering, serving

CHANNELS = {"GRAY8": 1, "GRAY_ALPHA8": 2, "RGB8": 3, "RGBA8": 4}


def _strided(channel_count: int) -> list[Any]:
    whole = np.random.default_rng(1).integers(0, 256, (8, 10, channel_count), dtype=np.uint8)
    return [whole, whole[::2, ::-1], whole[::-1, 3:], np.asfortranarray(whole), whole.transpose(1, 0, 2)]


@pytest.mark.parametrize("pixel_format", CHANNELS)
def test_raw_pixels_of_any_strides_are_sent_in_c_order(pixel_format: Any) -> None:
    from monopath._images import image_source

    for pixels in _strided(CHANNELS[pixel_format]):
        raw = image_source(RawImage(pixels, pixel_format)).pixels
        assert raw.data == np.array(pixels, order="C").tobytes()
        assert (raw.height_px, raw.width_px) == pixels.shape[:2]
        assert raw.format == image_pb2.PixelFormat.Value(f"PIXEL_FORMAT_{pixel_format}")


def test_grey_pixels_need_no_channel_axis() -> None:
    from monopath._images import image_source

    assert image_source(RawImage(np.zeros((2, 3), np.uint8), "GRAY8")).pixels.width_px == 3


@pytest.mark.parametrize(
    ("pixels", "pixel_format", "error"),
    [
        (np.zeros((2, 2, 4), np.uint8), "RGB8", ValueError),
        (np.zeros((2, 2), np.uint8), "RGB8", ValueError),
        (np.zeros((2, 2, 3), np.uint8), "GRAY8", ValueError),
        (np.zeros((2, 2, 3), np.uint8), "BGR8", ValueError),
        (np.zeros((2, 2, 3), np.float32), "RGB8", TypeError),
        ([[1]], "GRAY8", TypeError),
    ],
)
def test_pixels_that_are_not_their_formats_are_refused(pixels: Any, pixel_format: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="Expected"):
        RawImage(pixels, pixel_format)


def test_digests_that_are_no_sha256_are_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Item(b"a", expected_sha256=b"short")
    with pytest.raises(ValueError, match="32 bytes"):
        LocalFeatures(np.zeros(1), Size(1, 1), GridThw(1, 1, 1), content_sha256="ab" * 16)  # type: ignore[arg-type]


def test_labels_that_are_no_text_are_refused() -> None:
    with pytest.raises(TypeError, match="label to be str, got int"):
        Item(b"a", label=7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="traceparent to be str, got bytes"):
        LocalFeatures(np.zeros(1), Size(1, 1), GridThw(1, 1, 1), traceparent=b"")  # type: ignore[arg-type]


def test_features_that_no_message_can_hold_raise_before_they_have_an_id() -> None:
    bad = LocalFeatures(np.zeros((1, 3, 2, 2), np.float32), Size(-1, 2), GridThw(1, 1, 1), token_count=1)
    good = LocalFeatures(np.zeros((1, 3, 2, 2), np.float32), Size(1, 2), GridThw(1, 1, 1), token_count=1)
    script = answering(lambda item: [wire.LOCAL.error(item.id)], path=wire.LOCAL)
    with (
        serving(Servicer(script)) as address,
        Client(address) as client,
        client.local(**ARGUMENTS) as stream,
    ):
        with pytest.raises(ValueError, match="range"):
            stream.send(bad)
        assert [result.id for result in stream.map([good])] == [1]


KIMI = KimiConfig(patch_size=14, merge_kernel_size=2)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"preset": "p"}, ProcessorConfig(preset=config_pb2.PresetConfig(name="p"))),
        (
            {"checkpoint_json": "{}"},
            ProcessorConfig(checkpoint=config_pb2.CheckpointConfig(preprocessor_config_json="{}")),
        ),
        ({"config": KIMI}, ProcessorConfig(kimi=KIMI)),
        ({"config": ProcessorConfig(kimi=KIMI)}, ProcessorConfig(kimi=KIMI)),
        (
            {"preset": "p", "resample_kernel": "pillow_12_2", "orientation": "apply"},
            ProcessorConfig(
                preset=config_pb2.PresetConfig(
                    name="p",
                    resample_kernel=config_pb2.RESAMPLE_KERNEL_PILLOW_12_2,
                    orientation_policy=config_pb2.ORIENTATION_POLICY_APPLY,
                )
            ),
        ),
        (
            {"config": KIMI, "resample_kernel": "pillow_11"},
            ProcessorConfig(
                kimi=KimiConfig(
                    patch_size=14, merge_kernel_size=2, resample_kernel=config_pb2.RESAMPLE_KERNEL_PILLOW_11
                )
            ),
        ),
    ],
)
def test_the_config_reaches_the_server_as_it_was_given(arguments: Any, expected: ProcessorConfig) -> None:
    configs: list[Any] = []

    def script(requests: Any, _context: Any) -> Any:
        configs.append(next(requests).config)
        yield wire.CPU.ready()
        for _ in requests:
            pass
        yield wire.CPU.summary()

    with serving(Servicer(script)) as address:
        map_all("sync", address, [], preset=arguments.pop("preset", None), **arguments)
    assert configs[0].processor == expected
    assert not KIMI.HasField("resample_kernel")


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({}, TypeError, "exactly one of preset, config and checkpoint_json, got none"),
        ({"preset": "p", "checkpoint_json": "{}"}, TypeError, "got preset and checkpoint_json"),
        ({"config": {"patch_size": 14}}, TypeError, "InternVlConfig, ProcessorConfig, got dict"),
        ({"config": ProcessorConfig()}, TypeError, "got an empty ProcessorConfig"),
        ({"preset": "p", "data_type": "float64"}, ValueError, "data_type to be one of uint8, float32"),
        ({"preset": "p", "order": "sorted"}, ValueError, "order to be one of as_completed, as_sent"),
        ({"preset": "p", "resample_kernel": "lanczos"}, ValueError, "resample_kernel"),
        ({"preset": "p", "orientation": "turn"}, ValueError, "orientation"),
        ({"preset": "p", "max_unfinished_items": 0}, ValueError, "max_unfinished_items"),
    ],
)
def test_arguments_that_cannot_be_are_refused_before_anything_is_sent(
    arguments: Any, error: type[Exception], text: str
) -> None:
    with Client("127.0.0.1:1") as client, pytest.raises(error, match=text):
        client.deferred_cpu(**{"data_type": "uint8", **arguments})


def test_arguments_that_do_not_exist_are_type_errors() -> None:
    with Client("127.0.0.1:1") as client:
        with pytest.raises(TypeError, match="colour"):
            client.deferred_cpu(preset="p", data_type="uint8", colour="red")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="data_type"):
            client.deferred_cpu(preset="p")  # type: ignore[call-arg]


def _ready_for_tokens(**kimi: Any) -> Any:
    return {"processor": ProcessorConfig(kimi=KimiConfig(merge_kernel_size=2, **kimi))}


@pytest.mark.parametrize(
    ("given", "kimi", "expected"), [(None, {}, 6), (None, {"fixed_output_tokens": 9}, 9), (5, {}, 5)]
)
def test_a_token_count_that_is_not_given_is_the_configs(given: int | None, kimi: Any, expected: int) -> None:
    items: list[Any] = []

    def answer(item: Any) -> list[Any]:
        items.append(item)
        return [wire.LOCAL.error(item.id)]

    array = np.zeros((24, 3, 14, 14), np.uint8)
    features = LocalFeatures(array, Size(70, 50), GridThw(1, 4, 6), token_count=given)
    with serving(Servicer(answering(answer, path=wire.LOCAL, **_ready_for_tokens(**kimi)))) as address:
        map_all("sync", address, [features], method="local", data_type="uint8")
    assert items[0].token_count == expected


def _plan_reply(request: Any, _context: Any) -> service_pb2.PlanResponse:
    reply = service_pb2.PlanResponse(processor=request.processor, config_sha256=b"x" * 32)
    for image in request.images:
        if image.size.width_px == 0:
            reply.images.add(
                id=image.id,
                error=error_pb2.ItemError(id=image.id, reason=error_pb2.ITEM_ERROR_REASON_IMAGE_SIZE_INVALID),
            )
        else:
            plan = wire.CPU.plan(image.id).plan.plan
            if not request.HasField("data_type"):
                plan.ClearField("features")
            reply.images.add(id=image.id, plan=plan, encoder_rank=1)
    reply.encoder_ranks.add(rank=1, image_count=2, patch_count=8)
    reply.warnings.add(field="auto_map", description="ignored")
    return reply


def _check_plans(reply: PlanReply, *, with_tensor: bool) -> None:
    good, bad, _other = reply.images
    assert good.plan is not None
    assert good.error is None
    assert (good.id, good.encoder_rank, good.plan.padding) == (1, 1, Padding(1, 0))
    assert good.plan.shape == (wire.SHAPE if with_tensor else ())
    assert good.plan.data_type == ("float32" if with_tensor else None)
    assert bad.plan is None
    assert isinstance(bad.error, ItemError)
    assert (bad.error.reason, bad.error.item_id) == ("IMAGE_SIZE_INVALID", 2)
    assert reply.encoder_ranks[0].patch_count == 8
    assert reply.warnings[0].field == "auto_map"


@pytest.mark.parametrize("data_type", [None, "float32"])
def test_plans_come_for_each_size_as_plan_or_error(data_type: Any) -> None:
    requests: list[Any] = []

    def unary(request: Any, context: Any) -> Any:
        requests.append(request)
        return _plan_reply(request, context)

    with serving(Servicer(answering(), unary=unary)) as address, Client(address) as client:
        reply = client.plan([Size(3, 2), (0, 1), (5, 4)], preset="p", encoder_rank_count=2, data_type=data_type)
    _check_plans(reply, with_tensor=data_type is not None)
    assert requests[0].encoder_rank_count == 2
    assert (requests[0].images[2].size.width_px, requests[0].images[2].size.height_px) == (5, 4)


@pytest.mark.asyncio
async def test_plans_come_under_asyncio_too() -> None:
    with serving(Servicer(answering(), unary=_plan_reply)) as address:
        async with AsyncClient(address) as client:
            _check_plans(await client.plan([(3, 2), (0, 1), (5, 4)], preset="p"), with_tensor=False)


def _capabilities(_request: Any, _context: Any) -> service_pb2.GetCapabilitiesResponse:
    return service_pb2.GetCapabilitiesResponse(
        contract_version="1.0.0",
        paths=[
            service_pb2.PathCapability(path=path_pb2.PREPROCESSING_PATH_LOCAL, available=True),
            service_pb2.PathCapability(path=99, unavailable_reason="from the future"),  # type: ignore[arg-type]
        ],
        devices=[service_pb2.Device(id="cpu", paths=[path_pb2.PREPROCESSING_PATH_DEFERRED_CPU])],
        presets=[service_pb2.Preset(name="kimi-k3", processor=ProcessorConfig(kimi=KIMI), config_sha256=b"x")],
        data_types=[tensor_pb2.DATA_TYPE_BFLOAT16],
        transports=[service_pb2.TransportCapability(name="inline", available=True)],
        limits=event_pb2.StreamLimits(max_unfinished_items=7),
        image_formats=["PNG"],
        pixel_formats=[image_pb2.PIXEL_FORMAT_RGB8],
        resample_kernels=[config_pb2.RESAMPLE_KERNEL_PILLOW_11],
        pillow_resample_kernel=config_pb2.RESAMPLE_KERNEL_PILLOW_13,
    )


@pytest.mark.asyncio
async def test_capabilities_are_words_and_unknown_ones_numbers() -> None:
    with serving(Servicer(answering(), unary=_capabilities)) as address:
        with Client(address) as client:
            found = client.capabilities()
        async with AsyncClient(address) as async_client:
            again = await async_client.capabilities()
    for able in (found, again):
        assert [(path.name, path.available) for path in able.paths] == [("LOCAL", True), ("99", False)]
        assert able.devices[0].paths == ("DEFERRED_CPU",)
        assert able.presets[0].processor.kimi == KIMI
        assert (able.data_types, able.pixel_formats) == (("bfloat16",), ("RGB8",))
        assert (able.resample_kernels, able.pillow_resample_kernel) == (("pillow_11",), "pillow_13")
        assert able.limits.max_unfinished_items == 7
        assert able.transports[0].name == "inline"


def test_the_opening_tells_warnings_and_the_table_that_finishes_uint8_features() -> None:
    table = np.arange(768, dtype=np.float32).reshape(3, 256)
    ready: dict[str, Any] = {
        "warnings": [error_pb2.FieldViolation(field="auto_map", description="ignored")],
        "normalize_table": tensor_pb2.Tensor(
            spec=tensor_pb2.TensorSpec(data_type=tensor_pb2.DATA_TYPE_FLOAT32, shape=(3, 256), size_bytes=3072),
            data=table.tobytes(),
        ),
    }
    with (
        serving(Servicer(answering(**ready))) as address,
        Client(address) as client,
        client.deferred_cpu(**{**ARGUMENTS, "data_type": "uint8"}) as stream,
    ):
        assert stream.ready.warnings[0].field == "auto_map"
        assert stream.ready.config_sha256 == wire.CONFIG_SHA256
        assert stream.ready.normalize_table is not None
        np.testing.assert_array_equal(stream.ready.normalize_table, table)
