"""The reference alone, against published hashes and against the installed Pillow."""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pytest
from PIL import Image

from monopath_server.reference import (
    GeneratedImage,
    RawImage,
    ReferenceBackground,
    ReferenceConfig,
    UnreadableImageError,
    generated_images,
    reference_features,
    reference_plan,
)
from monopath_server.reference.color import composite_onto
from monopath_server.reference.features import normalize_pixels
from monopath_server.reference.generated import generated_pixels

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parent.parent / "data" / "reference_golden.json").read_text())
KERNELS = ("PILLOW_11", "PILLOW_12_2", "PILLOW_13")
ELEMENT_TYPES = ("UINT8", "FLOAT32", "BFLOAT16", "FLOAT16")
CHESSBOARD = {"pattern": "chessboard", "chessboard_square_size": 8, "chessboard_gray_value": 180}
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


def checkpoint(model: str = "K2.5", in_patch_limit: int = 16384, side: int = 512, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "patch_size": 14,
        "merge_kernel_size": 2,
        "in_patch_limit": in_patch_limit,
        "patch_limit_on_one_side": side,
        "fixed_output_tokens": None,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    if model == "K3":
        values |= {"transparent_bg_config": CHESSBOARD, "transparent_bg_fill_stage": "after_resize"}
    return values | changes


def config_of(*arguments: Any, **changes: Any) -> ReferenceConfig:
    return ReferenceConfig.from_checkpoint_json(checkpoint(*arguments, **changes))


def raw_image(pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> RawImage:
    height, width, channels = pixels.shape
    names = ("GRAY8", "GRAY_ALPHA8", "RGB8", "RGBA8")
    return RawImage(width, height, names[channels - 1], pixels.tobytes())  # type: ignore[arg-type]


def png(image: Image.Image, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", **options)
    return buffer.getvalue()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['model']}-{case['mode']}-{case['width_px']}")
def test_published_hashes_are_reproduced_in_every_pass_order(case: dict[str, Any], kernel: str) -> None:
    pixels = generated_pixels(case["width_px"], case["height_px"], len(case["mode"]))
    assert hashlib.sha256(pixels.tobytes()).hexdigest().startswith(case["source_sha256_prefix"])
    config = ReferenceConfig.from_checkpoint_json(
        checkpoint(case["model"], case["in_patch_limit"], case["patch_limit_on_one_side"]), resample_kernel=kernel
    )
    for element_type in ("FLOAT32", "BFLOAT16"):
        features = reference_features(raw_image(pixels), config, element_type)
        assert hashlib.sha256(features.pixel_values.tobytes()).hexdigest() == case["sha256"][kernel][element_type]
        assert [*features.resized_size, *features.padding] == [*case["resized_size"], *case["padding"]]
        assert list(features.grid_thw) == case["grid_thw"]
        assert features.pixel_values.shape == (case["row_count"], 3, 14, 14)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case['model']}-{case['mode']}-{case['width_px']}")
def test_uint8_features_are_the_published_resized_pixels(case: dict[str, Any]) -> None:
    pixels = generated_pixels(case["width_px"], case["height_px"], len(case["mode"]))
    config = config_of(case["model"], case["in_patch_limit"], case["patch_limit_on_one_side"])
    features = reference_features(raw_image(pixels), config, "UINT8")
    _, grid_height, grid_width = features.grid_thw
    patches = features.pixel_values.reshape(grid_height, grid_width, 3, 14, 14)
    canvas = patches.transpose(0, 3, 1, 4, 2).reshape(grid_height * 14, grid_width * 14, 3)
    width, height = features.resized_size
    resized = np.ascontiguousarray(canvas[:height, :width])
    assert hashlib.sha256(resized.tobytes()).hexdigest() == case["sha256"]["PILLOW_13"]["resized"]
    assert not canvas[height:].any()
    assert not canvas[:, width:].any()


@pytest.mark.parametrize(
    ("mean", "std", "expected"),
    [
        ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), "59e92db758d185f3e78b2d7a346580fc50ce7b0317d28f68f40ad10293501ab3"),
        (CLIP_MEAN, CLIP_STD, "963d710b4e5d42c96bbc122dd791871678442f224097750e6083da8f9308ab05"),
    ],
)
def test_normalised_values_have_the_published_hash(
    mean: tuple[float, float, float], std: tuple[float, float, float], expected: str
) -> None:
    every_value = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 3, axis=1)
    table = np.ascontiguousarray(normalize_pixels(every_value, mean, std).T)
    assert hashlib.sha256(table.tobytes()).hexdigest() == expected


@pytest.mark.parametrize(
    ("background", "expected"),
    [
        (ReferenceBackground("white"), "1c318b5d0d0c793a92121e9ac32d34e12b80aace0800407c1c4b585bfbfe949e"),
        (ReferenceBackground("gray"), "3da3125e2ca2d14368c744dade8115c1fc27e8bd410ec9ad491bce4f210abac5"),
        (
            ReferenceBackground("chessboard", chessboard_white_value=180, chessboard_gray_value=180),
            "a8c3ee57f77343114db8716cd07bc80e71dc83dfc7aa997e2d8dead90ede0fdb",
        ),
        (
            ReferenceBackground("chessboard", chessboard_white_value=200),
            "36f2f8de3698b9c1f7b11ce2e061df57491eead00b27452e12c15f721c7576a8",
        ),
    ],
)
def test_composites_have_the_published_hash(background: ReferenceBackground, expected: str) -> None:
    alpha, color = np.mgrid[0:256, 0:256].astype(np.uint8)
    table = composite_onto(background, np.stack([color, color, color, alpha], axis=2))
    assert hashlib.sha256(np.ascontiguousarray(table[..., 1]).tobytes()).hexdigest() == expected


@pytest.mark.parametrize("top_left_is_white", [True, False])
def test_the_chessboard_begins_with_the_named_square(top_left_is_white: bool) -> None:
    background = ReferenceBackground("chessboard", 3, top_left_is_white, 250, 10)
    board = composite_onto(background, np.zeros((7, 7, 4), np.uint8))[..., 0]
    first, second = (250, 10) if top_left_is_white else (10, 250)
    assert board[0].tolist() == [first] * 3 + [second] * 3 + [first]
    assert board[:, 0].tolist() == board[0].tolist()
    assert board[3, 3] == first


def installed_kernel() -> str:
    version = tuple(int(part) for part in PIL.__version__.split(".")[:2])
    return "PILLOW_11" if version < (12, 2) else "PILLOW_12_2" if version < (13, 0) else "PILLOW_13"


def rgb_by_pillow_alone(image: Image.Image, target: tuple[int, int], config: ReferenceConfig) -> Image.Image:
    """The checkpoint's own steps, each one call to the installed Pillow; the composite is K3's published text."""
    if config.fill_stage == "after_resize":
        image = image.resize(target, Image.Resampling.BICUBIC)
    if image.mode != "RGB":
        transparent = "A" in image.getbands() or "transparency" in image.info
        if config.background is None or not transparent:
            image = image.convert("RGB")
        else:
            rgba = np.asarray(image.convert("RGBA"))
            rows, columns = np.indices(rgba.shape[:2])
            square = config.background.chessboard_square_size
            board = np.where((rows // square + columns // square) % 2 == 1, 180, 255).astype(np.uint8)[..., None]
            alpha = rgba[..., 3:].astype(np.float32) / 255.0
            blended = alpha * rgba[..., :3].astype(np.float32) + (1.0 - alpha) * board.astype(np.float32)
            image = Image.fromarray(blended.astype(np.uint8))
    return image.resize(target, Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def small_images() -> list[GeneratedImage]:
    return list(generated_images(include_large=False))


@pytest.mark.parametrize("fill_stage", ["before_resize", "after_resize"])
@pytest.mark.parametrize("background", [None, CHESSBOARD])
def test_every_mode_equals_the_installed_pillow(
    small_images: list[GeneratedImage], fill_stage: str, background: dict[str, Any] | None
) -> None:
    values = checkpoint(
        in_patch_limit=16, side=10, transparent_bg_config=background, transparent_bg_fill_stage=fill_stage
    )
    config = ReferenceConfig.from_checkpoint_json(values, resample_kernel=installed_kernel())
    resized_modes = set()
    for generated in small_images:
        if isinstance(generated.source, RawImage):
            raw = generated.source
            image = Image.frombytes(generated.mode, (raw.width_px, raw.height_px), raw.data)
        else:
            image = Image.open(io.BytesIO(generated.source))
        features = reference_features(generated.source, config, "UINT8")
        if features.original_size != features.resized_size:
            resized_modes.add(generated.mode)
        with warnings.catch_warnings():
            # Pillow advises against dropping a palette's transparency; the checkpoint does it all the same.
            warnings.filterwarnings("ignore", "Palette images with Transparency", UserWarning)
            expected = np.asarray(rgb_by_pillow_alone(image, features.resized_size, config))
        patches = features.pixel_values.reshape(*features.grid_thw[1:], 3, 14, 14)
        canvas = patches.transpose(0, 3, 1, 4, 2).reshape(features.grid_thw[1] * 14, features.grid_thw[2] * 14, 3)
        assert np.array_equal(canvas[: expected.shape[0], : expected.shape[1]], expected), generated.name
    assert resized_modes == {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr", "I", "I;16", "F"}


def test_the_generated_set_is_the_same_each_time(small_images: list[GeneratedImage]) -> None:
    again = list(generated_images(include_large=False))
    assert [image.name for image in again] == [image.name for image in small_images]
    assert [image.source for image in again] == [image.source for image in small_images]
    assert len({image.name for image in again}) == len(again)


@pytest.mark.parametrize("element_type", ELEMENT_TYPES)
def test_elements_are_rounded_from_the_float32_values(element_type: str) -> None:
    torch = pytest.importorskip("torch")
    config = config_of(image_mean=list(CLIP_MEAN), image_std=list(CLIP_STD))
    pixels = generated_pixels(56, 28, 3)
    actual = reference_features(raw_image(pixels), config, element_type).pixel_values
    values = reference_features(raw_image(pixels), config, "FLOAT32").pixel_values.view(np.float32)
    if element_type == "UINT8":
        assert actual[0, 1].tolist() == pixels[:14, :14, 1].tolist()
        return
    expected = torch.from_numpy(values).to(getattr(torch, element_type.lower()))
    assert expected.contiguous().view(torch.uint8).numpy().tobytes() == actual.tobytes()


def test_an_exif_orientation_is_applied_only_where_asked_for() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    source = png(Image.fromarray(generated_pixels(40, 20, 3)), exif=exif.tobytes())
    kept = ReferenceConfig.from_checkpoint_json(checkpoint(), orientation="KEEP")
    applied = ReferenceConfig.from_checkpoint_json(checkpoint(), orientation="APPLY")
    assert reference_features(source, kept, "UINT8").original_size == (40, 20)
    turned = reference_features(source, applied, "UINT8")
    assert turned.original_size == (20, 40)
    upright = raw_image(np.ascontiguousarray(np.rot90(generated_pixels(40, 20, 3), -1)))
    assert np.array_equal(turned.pixel_values, reference_features(upright, kept, "UINT8").pixel_values)


@pytest.mark.parametrize(
    ("size", "limit", "expected"),
    [
        ((8366, 14), 16384, (7167, 11, 1, 17, 256)),
        ((50000, 7), 65536, (7167, 1, 1, 27, 256)),
        ((10, 20000), 16384, (3, 7168, 25, 0, 256)),
        ((1290, 2796), 16384, (1220, 2645, 12, 15, 4180)),
        ((4000, 3000), 65536, (4000, 3000, 4, 24, 15444)),
        ((1023, 767), 4096, (1023, 767, 13, 17, 1036)),
    ],
)
def test_plans_are_those_of_the_specification(
    size: tuple[int, int], limit: int, expected: tuple[int, int, int, int, int]
) -> None:
    plan = reference_plan(config_of(in_patch_limit=limit), *size)
    assert (*plan.resized_size, *plan.padding, plan.token_count) == expected


def test_padding_beyond_the_side_limit_is_refused_as_in_the_checkpoint() -> None:
    with pytest.raises(ValueError, match="Expected at most 9 patches on one side"):
        reference_plan(config_of(side=9), 200, 10)


def test_a_token_count_that_contradicts_the_grid_is_refused() -> None:
    assert reference_plan(config_of(fixed_output_tokens=4), 56, 56).token_count == 4
    with pytest.raises(ValueError, match="Expected 5 tokens"):
        reference_plan(config_of(fixed_output_tokens=5), 56, 56)


def test_flat_and_nested_configs_mean_the_same() -> None:
    nested = {"media_proc_cfg": checkpoint("K3"), "auto_map": {}}
    assert ReferenceConfig.from_checkpoint_json(nested) == config_of("K3")
    assert config_of(merge_kernel_size=[2, 2], image_mean=[0.5], image_std=0.5) == config_of()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transparent_bg_fill_stage": "later"}, "Expected transparent_bg_fill_stage"),
        ({"transparent_bg_config": {"pattern": "stripes"}}, "Expected pattern"),
        ({"merge_kernel_size": [2, 3]}, "Expected merge_kernel_size"),
        ({"image_mean": [0.5, 0.5]}, "Expected 1 or 3 values"),
    ],
)
def test_a_config_without_a_meaning_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config_of(**changes)


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"not an image",
        png(Image.fromarray(generated_pixels(64, 64, 3)))[:600],
        RawImage(4, 4, "RGB8", bytes(47)),
        RawImage(0, 4, "RGB8", b""),
    ],
    ids=["empty", "text", "cut off", "a byte short", "no width"],
)
def test_an_unreadable_source_is_named_as_such(source: bytes | RawImage) -> None:
    with pytest.raises(UnreadableImageError, match="Expected"):
        reference_features(source, config_of(), "UINT8")


def test_an_unknown_element_type_is_refused() -> None:
    with pytest.raises(ValueError, match="Expected the element type"):
        reference_features(raw_image(generated_pixels(4, 4, 3)), config_of(), "FLOAT64")


def test_the_reference_imports_nothing_of_what_it_is_held_against() -> None:
    import monopath_server.reference

    folder = Path(monopath_server.reference.__file__).parent
    imported = {
        line.split()[1]
        for module in folder.glob("*.py")
        for line in module.read_text().splitlines()
        if line.lstrip().startswith(("from monopath_server", "import monopath_server"))
    }
    assert imported
    assert all(name.startswith("monopath_server.reference") for name in imported), imported
