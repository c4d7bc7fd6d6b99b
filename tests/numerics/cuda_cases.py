"""Random images and batches for the tests of the CUDA transform, and the CPU's answer to them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from monopath_server.media.prepare import PreparedPixels, ResizeRoute
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.kimi.config import KimiConfig
from monopath_server.processors.types import (
    Background,
    BackgroundPattern,
    ElementType,
    FillStage,
    ImagePlan,
    ResampleKernel,
    Size,
)
from monopath_server.transforms.cpu.transform import CpuTransform
from monopath_server.transforms.cuda.transform import CudaTransform

__all__ = ["ImageCase", "assert_equal_to_the_cpu", "batch_items", "image_cases", "kimi_configs", "make_pixels"]

HALVES = (0.5, 0.5, 0.5)
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
GUARD = 0xA5


@dataclass(frozen=True)
class ImageCase:
    """One image to be made: its size, what it shows and how it enters the transform."""

    size: Size
    texture: str
    """noise, edges or waves"""
    has_alpha: bool
    already_resized: bool
    seed: int


def make_pixels(case: ImageCase, size: Size) -> NDArray[np.uint8]:
    """uint8 [height, width, 4], rows padded as in memory that a decoder owns."""
    random = np.random.default_rng(case.seed)
    shape = (size.height_px, size.width_px + case.seed % 3, 4)
    match case.texture:
        case "noise":
            pixels = random.integers(0, 256, shape, np.uint8)
        case "edges":
            pixels = random.choice(np.array([0, 255], np.uint8), shape)
        case _:
            y, x, channel = np.indices(shape)
            waves = 127 + 140 * np.sin(x / (3 + 9 * channel) + channel) * np.cos(y / (5 + 5 * channel))
            pixels = np.clip(waves, 0, 255).astype(np.uint8)
    view = pixels[:, : size.width_px]
    view.setflags(write=False)
    return view


@st.composite
def kimi_configs(draw: st.DrawFn) -> KimiConfig:
    """Configs whose limits are so small that most images are resized, and no grid is long: the interpreter is slow."""
    patch_size = draw(st.sampled_from([14, 14, 14, 16, 1, 2, 5, 27, 64]))
    merge_kernel_size = draw(st.sampled_from([1, 2, 2, 3]))
    mean, std = draw(st.sampled_from([(HALVES, HALVES), (CLIP_MEAN, CLIP_STD)]))
    backgrounds = st.builds(
        Background,
        st.sampled_from(BackgroundPattern),
        chessboard_square_size=st.sampled_from([1, 3, 8, 16, 1000]),
        chessboard_square_on_top_left=st.booleans(),
        chessboard_white_value=st.sampled_from([255, 250]),
        chessboard_gray_value=st.sampled_from([180, 200, 7]),
    )
    return KimiConfig(
        patch_size=patch_size,
        merge_kernel_size=merge_kernel_size,
        in_patch_limit=draw(st.sampled_from([1, 4, 16, 64])),
        # A multiple of the merge size: else padding may push a grid over the limit, which is refused.
        patch_limit_on_one_side=merge_kernel_size * draw(st.sampled_from([1, 4, 10] if patch_size < 14 else [4, 100])),
        image_mean=mean,
        image_std=std,
        transparent_background=draw(st.none() | backgrounds),
        transparent_fill_stage=FillStage.AFTER_RESIZE,
        resample_kernel=draw(st.sampled_from(ResampleKernel)),
    )


def image_cases(longest_px: int) -> st.SearchStrategy[ImageCase]:
    """Images of all proportions; the thin ones are filtered vertically first."""
    short = st.integers(1, longest_px // 4)
    sides = st.tuples(short, short) | st.tuples(st.integers(1, 9), st.integers(1, longest_px))
    sizes = st.builds(lambda pair, turned: Size(*(pair[::-1] if turned else pair)), sides, st.booleans())
    return st.builds(
        ImageCase,
        size=sizes,
        texture=st.sampled_from(["noise", "edges", "waves"]),
        has_alpha=st.booleans(),
        already_resized=st.sampled_from([False, False, False, True]),
        seed=st.integers(0, 1000),
    )


def batch_items(
    cases: Sequence[ImageCase], config: ProcessorConfig, element_type: ElementType
) -> tuple[list[tuple[PreparedPixels, ImagePlan, NDArray[np.uint8]]], NDArray[np.uint8]]:
    """Pixels, plans and memory, and the one block that the memory is cut from, with guard bytes between."""
    prepared = []
    plans = []
    for case in cases:
        plan = config.plan(case.size)
        size = plan.resized_size if case.already_resized else case.size
        route = ResizeRoute.HOST_PILLOW if case.already_resized else ResizeRoute.KERNEL
        pixels = make_pixels(case, size)
        prepared.append(PreparedPixels(pixels, case.has_alpha, case.already_resized, "RGBA", route))
        plans.append(plan)
    sizes = [plan.feature_bytes(element_type) for plan in plans]
    block = np.full(sum(sizes) + 64 * (len(sizes) + 1), GUARD, np.uint8)
    ends = list(itertools.accumulate(64 + size for size in sizes))
    memory = [block[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    return list(zip(prepared, plans, memory, strict=True)), block


def assert_equal_to_the_cpu(cases: Sequence[ImageCase], transform: CudaTransform) -> None:
    """Run a batch, and hold every byte against the CPU transform, those between the items too."""
    items, block = batch_items(cases, transform.config, transform.element_type)
    assert transform.run_batch(items) == (None,) * len(items)
    expected_items, expected_block = batch_items(cases, transform.config, transform.element_type)
    cpu_transform = CpuTransform(transform.config, transform.element_type)
    for prepared, plan, memory in expected_items:
        cpu_transform.rows_into(prepared, plan, memory)
    for case, (_, plan, actual), (_, _, expected) in zip(cases, items, expected_items, strict=True):
        assert np.array_equal(actual, expected), (case, plan)
    assert np.array_equal(block, expected_block)
