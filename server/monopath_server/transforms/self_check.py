"""Holds the arithmetic of this machine and of the installed Pillow against known bytes, before the first request."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from typing import Final

import numpy as np
import PIL
from numpy.typing import NDArray
from PIL import Image

from monopath_server.media.pillow_resize import resize_in_own_mode
from monopath_server.media.prepare import prepare_image
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.fixed_size.family import CLIP_PRESETS
from monopath_server.processors.fixed_size.geometry import ShortestEdgeResize
from monopath_server.processors.intern_vl.family import PRESETS as INTERN_VL_PRESETS
from monopath_server.processors.kimi.presets import PRESETS
from monopath_server.processors.qwen_vl.family import PRESETS as QWEN_PRESETS
from monopath_server.processors.types import ElementType, ResampleKernel, Size
from monopath_server.transforms.cpu.transform import CpuTransform

__all__ = ["check_arithmetic", "generated_pixels", "installed_resample_kernel"]

# A shape for each side of each rule: (source, target).
_PASS_ORDER_CASES: Final = (
    (Size(60, 40), Size(30, 20)),
    (Size(20, 60), Size(12, 30)),
    (Size(20, 60), Size(12, 44)),
    (Size(2, 250), Size(1, 200)),
    (Size(2, 250), Size(3, 251)),
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Golden:
    """SHA-256 of the `pixel_values` of a generated image, for each element type."""

    name: str
    config: ProcessorConfig
    """With limits so low that a small image is resized."""
    size: Size
    channels: int
    digests: dict[ElementType, str]


def _small_kimi(name: str, kernel: ResampleKernel) -> ProcessorConfig:
    return dataclasses.replace(PRESETS[name], in_patch_limit=64, patch_limit_on_one_side=16, resample_kernel=kernel)


_GOLDENS: Final = (
    _Golden(
        "kimi-k2.5",
        _small_kimi("kimi-k2.5", ResampleKernel.PILLOW_11),
        Size(150, 400),
        3,
        {
            ElementType.UINT8: "1b7a2dd41a31028021dea4aae558e48ece94d9f85cb118701ffad880f76ece39",
            ElementType.FLOAT16: "6b81555f939ba45149254345fa673c45289ff0b68034888160e99fbed662a92b",
            ElementType.FLOAT32: "968cf3ca683f59469f6b7c44d97b90bab40e4f1b90e317354f5aa84d5b335f76",
            ElementType.BFLOAT16: "ebbfc12b76d22067196ad596d4f37fd824703ca9534a5fbfc399654088843e77",
        },
    ),
    _Golden(
        "kimi-k3",
        _small_kimi("kimi-k3", ResampleKernel.PILLOW_13),
        Size(150, 400),
        4,
        {
            ElementType.UINT8: "880410fad3ae1fce467fb60a1a014116f3fd507043df77ad79684744abd8858e",
            ElementType.FLOAT16: "8995f5ed3772f7cf4f59f17b645e2e1809784f2804c9c2479c9c220a82f9b749",
            ElementType.FLOAT32: "1f1ad23f87c8ba0df5ef541b7c458c113d5c758bc392830052a19db93f6ed1c1",
            ElementType.BFLOAT16: "8eb8057b40901d0681cd8b77b561333446feef96fee9d910d75d3e31940f67d2",
        },
    ),
    _Golden(
        "kimi-k3",
        _small_kimi("kimi-k3", ResampleKernel.PILLOW_13),
        Size(300, 200),
        4,
        {
            ElementType.UINT8: "714d3267936cc9bd5825eb6ad6798de7e5753dbdd8842e163b84a04f5b92b26a",
            ElementType.FLOAT16: "af5a4a9fd7da7fefcb3f0f23e3cc9b066111d9667179aed8471b41bf9f6cd064",
            ElementType.FLOAT32: "83286d2e25680641ae4bd3c894f5b7afcb60de0458010900dc498a81e1561bc4",
            ElementType.BFLOAT16: "1bab15fdc7ed9d2bfb6d12fe6303633a0ae017b67bfd5612b8d3d197a2fc0e68",
        },
    ),
    _Golden(
        "qwen3-vl",
        dataclasses.replace(QWEN_PRESETS["qwen3-vl"], min_pixels=4_096, max_pixels=16_384),
        Size(300, 200),
        3,
        {
            ElementType.UINT8: "f33b660ff221dbc51b20e0c2eafba031c7763ad90a465c2cfaed88d4ea0de7dd",
            ElementType.FLOAT16: "4825dea2094cc1be21321d5f95d020a3b0f783ae7315a1474b5a5cbc740454b9",
            ElementType.FLOAT32: "f68dc4de0c8da963810ff6252a5d8634619fdef4bb31698fafd7d8b0c1ad5699",
            ElementType.BFLOAT16: "62b33ba70cf4ff07e0f314a8fbaa501e6d84daf1e1789117264e823006c853f7",
        },
    ),
    _Golden(
        "clip-vit-l-14",
        # The image is resized to 28 x 20: cut on the left and right, and between zeros above and below.
        dataclasses.replace(CLIP_PRESETS["clip-vit-l-14"], resize=ShortestEdgeResize(20), crop_size=Size(24, 25)),
        Size(30, 21),
        3,
        {
            ElementType.UINT8: "2e95b63a3672e25b64ce0f789e5c25bfa3609425f195b165b08fbccef00cb1b3",
            ElementType.FLOAT16: "5e95d07fd013e58b8d1c8107ee6b8a6f7067c2e2293fe0161bb446e5ec7c64ba",
            ElementType.FLOAT32: "059c2475d6d0dd0e00a66a04a1612a34ad47e3e66832eabea082fb0530430a63",
            ElementType.BFLOAT16: "a81a413e15233145c1907b02d9c8356a59c3c9927d49fc4711c1bc917306c1bf",
        },
    ),
    _Golden(
        "internvl2.5",
        dataclasses.replace(INTERN_VL_PRESETS["internvl2.5"], tile_size=28, max_tiles=6),
        Size(150, 400),
        3,
        {
            ElementType.UINT8: "29fb268b36faa2a6fd80dafc8d779a1e82cee0d9f57981b4baa8276347a5c754",
            ElementType.FLOAT16: "23674f3228d9e8354d799bc65f648579cdc6388f4d3488a6b36d1c6f98c7e75d",
            ElementType.FLOAT32: "8e7bd45e3914a4debc37f471c00f98ddbbec82e68b18e02c9bc4451d5fe9223a",
            ElementType.BFLOAT16: "29f4f40650a773d9f2b59be881e3223ef6928f7e55072894db188fc4e55a1f3d",
        },
    ),
)


def check_arithmetic() -> None:
    """Run the CPU transform in every element type, and Pillow's resize, on tiny images whose bytes are known.

    Takes a few seconds where the kernel was never compiled on this machine, else well below one.

    Raises:
        RuntimeError: something differs; the text lists all of it.
    """
    differences = [*_pass_order_differences(), *_golden_differences()]
    if differences:
        raise RuntimeError("Expected exact arithmetic, got differences: " + "; ".join(differences))


def installed_resample_kernel() -> ResampleKernel:
    """Return the kernel that the installed Pillow's own `resize` is believed to be."""
    match = re.match(r"(\d+)\.(\d+)", PIL.__version__)
    if match is None:
        raise RuntimeError(f"Expected a Pillow version, got {PIL.__version__}")
    version = (int(match[1]), int(match[2]))
    if version >= (13, 0):
        return ResampleKernel.PILLOW_13
    return ResampleKernel.PILLOW_12_2 if version >= (12, 2) else ResampleKernel.PILLOW_11


def generated_pixels(size: Size, channels: int) -> NDArray[np.uint8]:
    """Return uint8 [height, width, channels]: the image that the golden digests were made of."""
    x = np.arange(size.width_px, dtype=np.int64)[None, :, None]
    y = np.arange(size.height_px, dtype=np.int64)[:, None, None]
    channel = np.arange(channels, dtype=np.int64)[None, None, :]
    product = x * y
    value = 3 * x * x + 5 * y * y + 7 * product + 11 * x + 13 * y + 97 * channel + product * (channel + 1) // 16
    pixels: NDArray[np.uint8] = (value % 256).astype(np.uint8)
    return pixels


def _pass_order_differences() -> list[str]:
    believed = installed_resample_kernel()
    differences = []
    for source, target in _PASS_ORDER_CASES:
        image = Image.fromarray(generated_pixels(source, 3))
        actual = image.resize((target.width_px, target.height_px), Image.Resampling.BICUBIC)
        if actual.tobytes() != resize_in_own_mode(image, target, believed).tobytes():
            differences.append(f"Pillow {PIL.__version__} resizes {source} to {target} unlike {believed.name}")
    return differences


def _golden_differences() -> list[str]:
    differences = []
    for golden in _GOLDENS:
        config = golden.config
        image = Image.fromarray(generated_pixels(golden.size, golden.channels))
        plan = config.plan(golden.size)
        prepared = prepare_image(image, plan, config)
        for element_type, digest in golden.digests.items():
            rows = np.empty(plan.feature_bytes(element_type), np.uint8)
            CpuTransform(config, element_type).rows_into(prepared, plan, rows)
            if hashlib.sha256(rows.data).hexdigest() != digest:
                differences.append(
                    f"{golden.name} in {element_type.name} of {golden.size} with {golden.channels} channels "
                    f"and {config.arithmetic.resample_kernel.name}"
                )
    return differences


if __name__ == "__main__":
    check_arithmetic()
