"""Kinds of fault that users of such services reported: colour modes, tiny and ambiguous images, CUDA unlike the CPU."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from monopath.v1 import config_pb2, event_pb2, image_pb2, tensor_pb2
from monopath_server.reference import RawImage, ReferenceConfig, reference_features
from monopath_server.settings import DeviceMode
from tests.demo.checkpoints import reference_config
from tests.support.case_inputs import case_inputs, encode
from tests.support.server import quick_settings
from tests.support.stream import (
    Outcome,
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

Source = bytes | RawImage
PRESETS = ("kimi-k2.5", "kimi-k3")
ELEMENT_TYPES = {
    "UINT8": tensor_pb2.DATA_TYPE_UINT8,
    "FLOAT32": tensor_pb2.DATA_TYPE_FLOAT32,
    "BFLOAT16": tensor_pb2.DATA_TYPE_BFLOAT16,
    "FLOAT16": tensor_pb2.DATA_TYPE_FLOAT16,
}
PIXEL_FORMATS = {
    "GRAY8": image_pb2.PIXEL_FORMAT_GRAY8,
    "GRAY_ALPHA8": image_pb2.PIXEL_FORMAT_GRAY_ALPHA8,
    "RGB8": image_pb2.PIXEL_FORMAT_RGB8,
    "RGBA8": image_pb2.PIXEL_FORMAT_RGBA8,
}


@dataclass(frozen=True)
class Machine:
    """Where the features are made."""

    path: PathName
    cuda: DeviceMode


machines = pytest.mark.parametrize(
    "machine",
    [
        pytest.param(Machine("deferred_cpu", DeviceMode.OFF), id="cpu"),
        pytest.param(Machine("deferred_cuda", DeviceMode.INTERPRETER), id="interpreter"),
        pytest.param(Machine("deferred_cuda", DeviceMode.AUTO), id="gpu", marks=pytest.mark.cuda),
    ],
)


async def stream_images(
    machine: Machine, processor: config_pb2.ProcessorConfig, images: Sequence[image_pb2.ImageSource], element_type: str
) -> list[Outcome]:
    """What one stream makes of the images; after them, and on a stream after that, a good one must come through."""
    control = encoded(png(photo(30, 20)))
    config = make_config(machine.path, processor, data_type=ELEMENT_TYPES[element_type])
    requests = [make_item(number, image, path=machine.path) for number, image in enumerate([*images, control], 1)]
    async with running_rig(quick_settings(cuda=machine.cuda)) as rig:
        stream: RawStream = await rig.run(requests, config, machine.path)
        after: RawStream = await rig.run([make_item(1, control, path=machine.path)], config, machine.path)
    outcomes = [stream.outcomes[number] for number in range(1, len(requests) + 1)]
    assert outcomes[-1].completion is not None
    assert outcomes[-1].sha256 == after.outcomes[1].sha256
    return outcomes[:-1]


def assert_as_the_reference(name: str, outcome: Outcome, source: Source, config: ReferenceConfig, kind: str) -> None:
    """Plan and bytes are those of the checkpoint's processor, and there are some."""
    expected = reference_features(source, config, kind)
    assert outcome.reason == "", name
    assert outcome.plan is not None
    plan = outcome.plan.plan
    assert (plan.grid_thw.t, plan.grid_thw.h, plan.grid_thw.w) == expected.grid_thw, name
    assert (plan.resized_size.width_px, plan.resized_size.height_px) == expected.resized_size, name
    assert plan.token_count == expected.token_count > 0, name
    assert bytes(outcome.data) == expected.pixel_values.tobytes() != b"", name


def sent(source: Source) -> image_pb2.ImageSource:
    if isinstance(source, bytes):
        return encoded(source)
    return raw_pixels(source.data, source.width_px, source.height_px, PIXEL_FORMATS[source.pixel_format])


COLOUR_MODES = (
    "gray.jpg",
    "la.png",
    "one_bit.png",
    "p_opaque.png",
    "p_transparent.png",
    "p_transparent_bytes.png",
    "rgb_trns.png",
    "l_trns0.png",
    "rgba.png",
    "rgba_colour_under_alpha0.png",
    "gray16.png",
    "int32.tif",
    "float32.tif",
    "cmyk.jpg",
    "cmyk.tif",
    "mpo.jpg",
    "anim.gif",
    "rgb.png",
)
ALPHA_OR_RGB = {"gray.jpg", "la.png", "rgba.png", "rgba_colour_under_alpha0.png", "rgb.png", "mpo.jpg", "rgb_trns.png"}
"""Images of the modes that the kernels read themselves under every config."""


@machines
@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.asyncio
async def test_every_colour_mode_has_the_checkpoints_bytes(machine: Machine, name: str) -> None:
    inputs = case_inputs()
    images = [encoded(inputs[file]) for file in COLOUR_MODES]
    outcomes = dict(zip(COLOUR_MODES, await stream_images(machine, preset(name), images, "FLOAT32"), strict=True))
    for file, outcome in outcomes.items():
        assert_as_the_reference(file, outcome, inputs[file], reference_config(name), "FLOAT32")
    by_kernel = event_pb2.ROUTE_HOST if machine.path == "deferred_cpu" else event_pb2.ROUTE_DEVICE
    for file, outcome in outcomes.items():
        route = outcome.completion.provenance.route
        assert route in (by_kernel, event_pb2.ROUTE_HOST_PILLOW), file
        assert route == by_kernel or file not in ALPHA_OR_RGB, file


@machines
@pytest.mark.parametrize("file", ["anim.gif", "anim.png", "anim.webp", "mpo.jpg"])
@pytest.mark.asyncio
async def test_files_of_several_frames_give_the_first(machine: Machine, file: str) -> None:
    [outcome] = await stream_images(machine, preset(), [encoded(case_inputs()[file])], "UINT8")
    rows = np.frombuffer(outcome.data, np.uint8).reshape(-1, 3, 14, 14)
    red, green, blue = (int(value) for value in rows[0, :, 3, 3])
    assert red >= 250
    assert max(green, blue) <= 5


def _raw(pixel_format: str, width_px: int, height_px: int) -> RawImage:
    channel_count = {"GRAY8": 1, "RGB8": 3}[pixel_format]
    pixels = np.random.default_rng(width_px).integers(0, 256, width_px * height_px * channel_count, np.uint8)
    return RawImage(width_px, height_px, pixel_format, pixels.tobytes())  # type: ignore[arg-type]  # a literal


@machines
@pytest.mark.asyncio
async def test_tiny_and_thin_images_have_the_checkpoints_bytes(machine: Machine) -> None:
    sources: dict[str, Source] = {file: data for file, data in case_inputs().items() if file.startswith("tiny_")}
    for pixel_format in ("RGB8", "GRAY8"):
        for width_px, height_px in ((3, 3), (1, 1000), (300, 3)):
            sources[f"{pixel_format} {width_px}x{height_px}"] = _raw(pixel_format, width_px, height_px)
    outcomes = await stream_images(
        machine, preset("kimi-k3"), [sent(source) for source in sources.values()], "BFLOAT16"
    )
    config = reference_config("kimi-k3")
    for (label, source), outcome in zip(sources.items(), outcomes, strict=True):
        assert_as_the_reference(label, outcome, source, config, "BFLOAT16")


AMBIGUOUS: Mapping[str, tuple[image_pb2.ImageSource, str, str]] = {
    "no format": (
        raw_pixels(bytes(27), 3, 3, image_pb2.PIXEL_FORMAT_UNSPECIFIED),
        "FIELD_INVALID",
        "image.pixels.format",
    ),
    "no width": (raw_pixels(bytes(27), 0, 3), "IMAGE_SIZE_INVALID", ""),
    "no height": (raw_pixels(bytes(27), 3, 0), "IMAGE_SIZE_INVALID", ""),
    "no sides and no bytes": (raw_pixels(b"", 0, 0), "IMAGE_SIZE_INVALID", ""),
    "one byte short": (raw_pixels(bytes(26), 3, 3), "PIXELS_SIZE_MISMATCH", ""),
    "one byte long": (raw_pixels(bytes(28), 3, 3), "PIXELS_SIZE_MISMATCH", ""),
    "gray as RGB": (raw_pixels(bytes(9), 3, 3), "PIXELS_SIZE_MISMATCH", ""),
}


@machines
@pytest.mark.asyncio
async def test_ambiguous_pixels_are_refused_one_by_one_with_the_field_named(machine: Machine) -> None:
    images = [image for image, _, _ in AMBIGUOUS.values()]
    outcomes = await stream_images(machine, preset(), images, "FLOAT32")
    found = {}
    for label, outcome in zip(AMBIGUOUS, outcomes, strict=True):
        assert outcome.error is not None, label
        assert outcome.data == b""
        found[label] = (outcome.reason, outcome.error.field)
    assert found == {label: (reason, field) for label, (_, reason, field) in AMBIGUOUS.items()}


def _checkpoint(**changes: object) -> dict[str, Any]:
    return {
        "patch_size": 14,
        "merge_kernel_size": 2,
        "in_patch_limit": 16384,
        "patch_limit_on_one_side": 512,
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
        "transparent_bg_config": {"pattern": "chessboard", "chessboard_square_size": 8},
        "transparent_bg_fill_stage": "after_resize",
        **changes,
    }


def _noise(width_px: int, height_px: int) -> NDArray[np.uint8]:
    return np.random.default_rng(5).integers(0, 256, (height_px, width_px, 3), dtype=np.uint8)


def _black_white_edge(side_px: int) -> NDArray[np.uint8]:
    pixels = np.zeros((side_px, side_px, 3), np.uint8)
    pixels[:, side_px // 2 :] = 255
    pixels[side_px // 2 :] ^= 255
    return pixels


def _hard_alpha(width_px: int, height_px: int) -> NDArray[np.uint8]:
    alpha = np.where(np.indices((height_px, width_px)).sum(axis=0) % 23 < 11, 255, 0).astype(np.uint8)
    return np.dstack([_noise(width_px, height_px), alpha])


ONE_PATCH_OF_31_PX = _checkpoint(patch_size=31, merge_kernel_size=1, patch_limit_on_one_side=1)
RESIZED: Mapping[str, tuple[NDArray[np.uint8], dict[str, Any], tuple[int, int]]] = {
    "noise": (_noise(512, 512), _checkpoint(in_patch_limit=314), (252, 252)),
    "edge": (
        _black_white_edge(64),
        _checkpoint(patch_size=31, merge_kernel_size=1, patch_limit_on_one_side=1),
        (31, 31),
    ),
    "photo": (photo(1024, 1024), _checkpoint(in_patch_limit=1152), (476, 476)),
    "hard alpha": (_hard_alpha(90, 70), _checkpoint(in_patch_limit=6), (40, 31)),
}


@machines
@pytest.mark.parametrize("name", RESIZED)
@pytest.mark.asyncio
async def test_hard_images_are_resized_to_the_checkpoints_bytes(machine: Machine, name: str) -> None:
    pixels, checkpoint, resized_size = RESIZED[name]
    config = ReferenceConfig.from_checkpoint_json(checkpoint)
    source = encode(Image.fromarray(pixels), "PNG")
    assert reference_features(source, config, "UINT8").resized_size == resized_size
    [outcome] = await stream_images(machine, _processor(checkpoint), [encoded(source)], "BFLOAT16")
    assert_as_the_reference(name, outcome, source, config, "BFLOAT16")


@machines
@pytest.mark.parametrize("element_type", ["UINT8", "BFLOAT16"])
@pytest.mark.asyncio
async def test_mixed_shapes_and_modes_in_one_batch_have_the_checkpoints_bytes(
    machine: Machine, element_type: str
) -> None:
    checkpoint = _checkpoint(in_patch_limit=4, patch_limit_on_one_side=8)
    config = ReferenceConfig.from_checkpoint_json(checkpoint)
    sources: list[Source] = [
        encode(Image.fromarray(_noise(60, 90)), "PNG"),
        _raw("GRAY8", 31, 45),
        encode(Image.fromarray(_hard_alpha(75, 50)), "PNG"),
        _raw("RGB8", 1, 150),
        encode(Image.fromarray(_hard_alpha(40, 30)).convert("LA"), "PNG"),
        case_inputs()["p_transparent_bytes.png"],
        case_inputs()["cmyk.jpg"],
        encode(Image.fromarray(_black_white_edge(20)), "PNG"),
    ]
    outcomes = await stream_images(machine, _processor(checkpoint), list(map(sent, sources)), element_type)
    for number, (source, outcome) in enumerate(zip(sources, outcomes, strict=True)):
        assert_as_the_reference(str(number), outcome, source, config, element_type)


def _processor(checkpoint: dict[str, Any]) -> config_pb2.ProcessorConfig:
    text = json.dumps(checkpoint)
    return config_pb2.ProcessorConfig(checkpoint=config_pb2.CheckpointConfig(preprocessor_config_json=text))
