"""Every colour mode, fill stage, background and pass order, byte for byte against Pillow and numpy."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image, ImageOps

from monopath_server.faults import ItemFault, ItemReason
from monopath_server.media.decode import decode_image
from monopath_server.media.header import planned_size, probe_header
from monopath_server.media.limits import ImageLimits
from monopath_server.media.pixels import PixelFormat
from monopath_server.media.prepare import PreparedPixels, ResizeRoute, prepare_image, prepare_raw_pixels
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.kimi.geometry import plan_image
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.types import (
    PILLOW_KERNELS,
    Background,
    BackgroundPattern,
    ElementType,
    FillStage,
    ImagePlan,
    OrientationPolicy,
    ResampleKernel,
    Size,
)
from monopath_server.transforms.cpu.transform import CpuTransform
from tests.numerics.oracle import expected_rows
from tests.numerics.strategies import ALL_MODES, configs, image_of_mode
from tests.support.case_inputs import case_inputs

INPUTS = case_inputs()
LIMITS = ImageLimits()
K25 = dataclasses.replace(PRESETS["kimi-k2.5"], in_patch_limit=16, patch_limit_on_one_side=8)
K3 = dataclasses.replace(PRESETS["kimi-k3"], in_patch_limit=16, patch_limit_on_one_side=8)
K3_BEFORE = dataclasses.replace(K3, transparent_fill_stage=FillStage.BEFORE_RESIZE)
AFTER_WITHOUT_BACKGROUND = dataclasses.replace(K25, transparent_fill_stage=FillStage.AFTER_RESIZE)
CONFIGS = {"k2.5": K25, "k3": K3, "k3-before": K3_BEFORE, "after-without-background": AFTER_WITHOUT_BACKGROUND}
UINT8 = ElementType.UINT8


def rows_of(prepared: PreparedPixels, plan: ImagePlan, config: KimiConfig) -> NDArray[np.uint8]:
    rows = np.full(plan.feature_bytes(UINT8), 77, np.uint8)
    CpuTransform(config, UINT8).rows_into(prepared, plan, rows)
    return rows


def prepared_rows(image: Image.Image, config: KimiConfig) -> tuple[ImagePlan, PreparedPixels, NDArray[np.uint8]]:
    plan = plan_image(config, Size(*image.size))
    prepared = prepare_image(image, plan, config)
    return plan, prepared, rows_of(prepared, plan, config)


@pytest.mark.parametrize("mode", ALL_MODES)
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("kernel", PILLOW_KERNELS, ids=lambda kernel: kernel.name)
def test_every_mode_has_the_bytes_of_the_checkpoint(mode: str, name: str, kernel: ResampleKernel) -> None:
    config = dataclasses.replace(CONFIGS[name], resample_kernel=kernel)
    # Resized in both orders, not resized at all, and resized along one axis only.
    for width_px, height_px in ((80, 90), (60, 170), (23, 19), (1, 150)):
        image = image_of_mode(mode, width_px, height_px, seed=width_px)

        plan, _, rows = prepared_rows(image, config)

        assert rows.tobytes() == expected_rows(image, plan, config, UINT8).tobytes()


@settings(deadline=None, max_examples=100)
@given(
    config=configs(),
    mode=st.sampled_from(ALL_MODES),
    width_px=st.integers(1, 200),
    height_px=st.integers(1, 200),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_image_of_any_mode_has_the_bytes_of_the_checkpoint(
    config: KimiConfig, mode: str, width_px: int, height_px: int, seed: int
) -> None:
    image = image_of_mode(mode, width_px, height_px, seed)

    plan, _, rows = prepared_rows(image, config)

    assert rows.tobytes() == expected_rows(image, plan, config, UINT8).tobytes()


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(
    "file_name",
    [
        "rgb.png",
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
        "lab.tif",
        "cmyk.jpg",
        "cmyk.tif",
        "mpo.jpg",
        "anim.gif",
        "anim.webp",
        "tiny_3x300.png",
        "tiny_1x1.png",
    ],
)
def test_every_file_has_the_bytes_of_the_checkpoint(file_name: str, name: str) -> None:
    config = CONFIGS[name]
    data = INPUTS[file_name]
    header = probe_header(data, LIMITS)
    image = decode_image(data, header)

    plan, prepared, rows = prepared_rows(image, config)

    assert plan == plan_image(config, planned_size(header, config.orientation))
    assert prepared.source_mode == header.mode
    assert rows.tobytes() == expected_rows(decode_image(data, header), plan, config, UINT8).tobytes()


@pytest.mark.parametrize("mode", ALL_MODES)
def test_only_modes_that_need_it_take_the_route_through_pillow(mode: str) -> None:
    image = image_of_mode(mode, 80, 90, seed=1)
    kernel_modes = ("RGB", "RGB+key", "L", "LA", "RGBA")

    _, after, _ = prepared_rows(image, K3)
    _, before, _ = prepared_rows(image, K3_BEFORE)

    assert after.route is (ResizeRoute.KERNEL if mode in kernel_modes else ResizeRoute.HOST_PILLOW)
    assert after.already_resized == (after.route is ResizeRoute.HOST_PILLOW)
    assert before.route is ResizeRoute.KERNEL
    assert not before.already_resized


def test_the_three_pass_orders_differ_where_they_should() -> None:
    tall = image_of_mode("RGB", 150, 400, seed=0)
    thin = image_of_mode("RGB", 2, 300, seed=0)
    wide = image_of_mode("RGB", 400, 150, seed=0)

    def distinct(image: Image.Image) -> tuple[bool, bool]:
        first, second, third = (
            prepared_rows(image, dataclasses.replace(K25, resample_kernel=kernel))[2].tobytes()
            for kernel in PILLOW_KERNELS
        )
        return first != second, second != third

    assert distinct(tall) == (False, True)
    assert distinct(thin) == (True, False)
    assert distinct(wide) == (False, False)


def test_the_order_of_filling_and_resizing_matters_to_soft_edges() -> None:
    image = image_of_mode("RGB", 80, 90, seed=9)
    image.putalpha(Image.linear_gradient("L").resize(image.size))

    assert prepared_rows(image, K3)[2].tobytes() != prepared_rows(image, K3_BEFORE)[2].tobytes()


def test_a_white_square_is_on_top_left_or_not() -> None:
    transparent = Image.new("RGBA", (28, 28), (10, 20, 30, 0))
    for is_white, value in ((True, 255), (False, 180)):
        board = Background(BackgroundPattern.CHESSBOARD, 8, is_white, 255, 180)
        config = dataclasses.replace(K3, transparent_background=board)

        _, _, rows = prepared_rows(transparent, config)

        first_patch = rows[: 3 * 14 * 14].reshape(3, 14, 14)
        assert (first_patch[:, :8, :8] == value).all()
        assert (first_patch[:, :8, 8:] == 435 - value).all()


def test_colour_hidden_under_a_transparent_pixel_cannot_bleed() -> None:
    data = INPUTS["rgba_colour_under_alpha0.png"]
    image = decode_image(data, probe_header(data, LIMITS))
    board = Background(BackgroundPattern.BLACK)
    config = dataclasses.replace(K3, transparent_background=board, in_patch_limit=4)

    plan, _, rows = prepared_rows(image, config)

    assert plan.resized_size != plan.original_size
    red = rows.reshape(plan.shape)[:, 0]
    assert not red.any()


@pytest.mark.parametrize("pixel_format", PixelFormat)
@pytest.mark.parametrize("name", CONFIGS)
def test_raw_pixels_have_the_bytes_of_the_same_image(pixel_format: PixelFormat, name: str) -> None:
    config = CONFIGS[name]
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[pixel_format.channels]
    for width_px, height_px in ((80, 170), (3, 3), (1, 1000), (300, 3)):
        image = image_of_mode(mode, width_px, height_px, seed=4)
        plan = plan_image(config, Size(width_px, height_px))

        prepared = prepare_raw_pixels(image.tobytes(), Size(width_px, height_px), pixel_format, plan, config)

        assert rows_of(prepared, plan, config).tobytes() == expected_rows(image, plan, config, UINT8).tobytes()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_applied_orientation_gives_the_bytes_of_the_upright_image(orientation: int) -> None:
    data = INPUTS[f"exif_{orientation}.jpg"]
    config = dataclasses.replace(K25, orientation=OrientationPolicy.APPLY)
    header = probe_header(data, LIMITS)
    image = decode_image(data, header, config.orientation)
    plan = plan_image(config, planned_size(header, config.orientation))

    rows = rows_of(prepare_image(image, plan, config), plan, config)

    upright = ImageOps.exif_transpose(decode_image(data, header))
    assert rows.tobytes() == expected_rows(upright, plan, config, UINT8).tobytes()


def test_a_mode_that_cannot_become_rgb_is_refused() -> None:
    # No file is opened in this mode; it stands for what Pillow may bring.
    image = Image.new("La", (40, 40))

    for config in (K25, K3):
        with pytest.raises(ItemFault) as caught:
            prepared_rows(image, config)
        assert caught.value.reason is ItemReason.IMAGE_UNSUPPORTED
        assert caught.value.message == "Expected a colour mode that can be turned into RGB, got La"


def test_an_image_is_not_changed_by_being_prepared() -> None:
    for mode in ALL_MODES:
        image = image_of_mode(mode, 40, 50, seed=2)
        before = (image.mode, image.tobytes(), dict(image.info))

        for config in CONFIGS.values():
            prepared_rows(image, config)

        assert (image.mode, image.tobytes(), dict(image.info)) == before
