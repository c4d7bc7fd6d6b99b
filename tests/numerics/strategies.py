"""Random configs and random images of every colour mode."""

from __future__ import annotations

import functools

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.types import (
    PILLOW_KERNELS,
    Background,
    BackgroundPattern,
    FillStage,
)

__all__ = ["ALL_MODES", "configs", "image_of_mode"]

ALL_MODES = (
    "RGB",
    "L",
    "LA",
    "RGBA",
    "P",
    "P+key",
    "P+alphas",
    "L+key",
    "RGB+key",
    "1",
    "CMYK",
    "YCbCr",
    "LAB",
    "I;16",
    "I",
    "F",
    "PA",
)
"""Pillow's colour modes, and those with a transparent colour or with transparent palette entries."""

_HALF = (0.5, 0.5, 0.5)
_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)

_backgrounds = st.none() | st.builds(
    Background,
    pattern=st.sampled_from(BackgroundPattern),
    chessboard_square_size=st.integers(1, 40),
    chessboard_square_on_top_left=st.booleans(),
    chessboard_white_value=st.integers(0, 255),
    chessboard_gray_value=st.integers(0, 255),
)


@st.composite
def configs(draw: st.DrawFn) -> KimiConfig:
    """Draw a config whose limits resize most small images and never refuse one."""
    merge_kernel_size = draw(st.sampled_from((2, 2, 2, 1, 3)))
    constants = st.floats(-2, 2), st.floats(0.01, 4)
    mean, std = draw(
        st.sampled_from(((_HALF, _HALF), (_HALF, _HALF), (_CLIP_MEAN, _CLIP_STD)))
        | st.tuples(*(st.tuples(values, values, values) for values in constants))
    )
    return KimiConfig(
        patch_size=draw(st.sampled_from((14, 14, 14)) | st.integers(1, 64)),
        merge_kernel_size=merge_kernel_size,
        in_patch_limit=draw(st.sampled_from((4, 16, 64, 100, 400, 16_384))),
        patch_limit_on_one_side=merge_kernel_size * draw(st.sampled_from((2, 4, 8, 16, 256))),
        image_mean=mean,
        image_std=std,
        transparent_background=draw(_backgrounds),
        transparent_fill_stage=draw(st.sampled_from(FillStage)),
        resample_kernel=draw(st.sampled_from(PILLOW_KERNELS)),
    )


def image_of_mode(mode: str, width_px: int, height_px: int, seed: int) -> Image.Image:
    """Make a loaded image of one of `ALL_MODES`: noise, hard edges or a smooth pattern, by the seed."""
    generator = np.random.default_rng(seed)
    texture = functools.partial(_texture, generator, height_px, width_px)
    name, _, key = mode.partition("+")
    size = (width_px, height_px)
    match name:
        case "RGB" | "CMYK" | "YCbCr" | "LAB":
            image = Image.frombytes(name, size, texture(4 if name == "CMYK" else 3).tobytes())
        case "RGBA" | "LA":
            pixels = texture(len(name))
            pixels[..., -1] = _alpha(generator, pixels[..., -1])
            image = Image.frombytes(name, size, pixels.tobytes())
        case "L":
            image = Image.frombytes("L", size, texture(1).tobytes())
        case "P" | "PA":
            image = Image.frombytes(name, size, texture(len(name)).tobytes())
            image.putpalette(generator.integers(0, 256, 768, dtype=np.uint8).tobytes())
        case "1":
            image = Image.fromarray(texture(1)[..., 0] > 127)
        case "I;16":
            image = Image.fromarray(generator.integers(0, 600, (height_px, width_px), dtype=np.uint16))
        case "I":
            image = Image.fromarray(generator.integers(-100, 600, (height_px, width_px), dtype=np.int32))
        case "F":
            image = Image.fromarray(generator.uniform(-50, 350, (height_px, width_px)).astype(np.float32))
        case _:
            raise ValueError(f"Expected a mode of ALL_MODES, got {mode}")
    if key == "alphas":
        image.info["transparency"] = generator.integers(0, 256, 200, dtype=np.uint8).tobytes()
        image.im.putpalettealphas(image.info["transparency"])
    elif key == "key" and name == "RGB":
        image.info["transparency"] = image.getpixel((0, 0))
    elif key == "key":
        image.info["transparency"] = int(generator.integers(0, 256))
    assert image.mode == name
    return image


def _texture(generator: np.random.Generator, height_px: int, width_px: int, channels: int) -> NDArray[np.uint8]:
    match generator.integers(0, 3):
        case 0:
            return generator.integers(0, 256, (height_px, width_px, channels), dtype=np.uint8)
        case 1:
            return generator.choice(np.array([0, 255], np.uint8), (height_px, width_px, channels))
        case _:
            y, x, channel = np.mgrid[0:height_px, 0:width_px, 0:channels]
            wave = 127 + 140 * np.sin(x / (3 + 9 * channel) + channel) * np.cos(y / (5 + 5 * channel))
            smooth: NDArray[np.uint8] = np.clip(wave, 0, 255).astype(np.uint8)
            return smooth


def _alpha(generator: np.random.Generator, drawn: NDArray[np.uint8]) -> NDArray[np.uint8]:
    match generator.integers(0, 4):
        case 0:
            return generator.choice(np.array([0, 255], np.uint8), drawn.shape)
        case 1:
            return np.full_like(drawn, 255)
        case _:
            return drawn
