"""What the reference processors made of generated images, and of sizes: measured, in `data/*_golden.json`."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from monopath_server.media.prepare import PreparedPixels, prepare_image
from monopath_server.processors.backends import CLIP_MEAN, CLIP_STD
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.fixed_size.family import CLIP_PRESETS, SIGLIP_PRESETS
from monopath_server.processors.fixed_size.geometry import ExactResize, ShortestEdgeResize
from monopath_server.processors.glm_next.family import PRESETS as GLM_NEXT_PRESETS
from monopath_server.processors.glm_vl.family import PRESETS as GLM_PRESETS
from monopath_server.processors.intern_vl.family import PRESETS as INTERN_VL_PRESETS
from monopath_server.processors.kimi_vl.family import PRESETS as KIMI_VL_PRESETS
from monopath_server.processors.plans import FixedSizePlan, PatchGridPlan, TilePlan
from monopath_server.processors.qwen_vl.family import PRESETS as QWEN_PRESETS
from monopath_server.processors.types import (
    AlphaPolicy,
    Crop,
    ElementType,
    ImagePlan,
    ResampleFilter,
    ResampleKernel,
    Size,
)
from monopath_server.reference.geometry import ReferencePlan
from monopath_server.transforms.cpu.transform import CpuTransform

__all__ = [
    "CLIP",
    "CLIP_PADDED",
    "GLM5",
    "INTERN_VL",
    "INTERN_VL_SMALL",
    "KIMI_VL",
    "QWEN2",
    "QWEN3",
    "SHORTEST_EDGES",
    "SIGLIP",
    "SIGLIP_BILINEAR",
    "SIZES",
    "TILE_CONFIGS",
    "TILE_GRIDS",
    "TILE_PIPELINES",
    "Golden",
    "cpu_rows",
    "generated_image",
    "goldens",
    "in_reference_words",
    "prepared",
    "sha256",
]

_FOLDER = Path(__file__).parent.parent / "data"
_DATA: dict[str, Any] = json.loads((_FOLDER / "windowed_golden.json").read_text())
_TILE_DATA: dict[str, Any] = json.loads((_FOLDER / "tile_golden.json").read_text())
SIZES: list[dict[str, Any]] = _DATA["sizes"]
SHORTEST_EDGES: list[Any] = _TILE_DATA["shortest_edge"]
"""Width, height; resized width and height, left and top of the crop for 224 and for 336 pixels."""
TILE_GRIDS: list[Any] = _TILE_DATA["tile_grids"]
"""Width, height; columns, rows, tiles and tokens for at most 12 tiles; columns, rows and tiles for at most 6."""
TILE_PIPELINES: list[Any] = _TILE_DATA["pipelines"]
QWEN2 = QWEN_PRESETS["qwen2.5-vl"]
QWEN3 = QWEN_PRESETS["qwen3-vl"]
GLM = GLM_PRESETS["glm-4.1v"]
GLM5 = GLM_NEXT_PRESETS["glm5-next"]
KIMI_VL = KIMI_VL_PRESETS["kimi-vl-a3b"]

_CONFIGS: dict[str, ProcessorConfig] = {
    "Q25": QWEN2,
    "Q25s": dataclasses.replace(QWEN2, max_pixels=12_544),
    "Q3": QWEN3,
    "Q3s": dataclasses.replace(QWEN3, min_pixels=4_096, max_pixels=16_384),
    "GLM": GLM,
    "GLMs": dataclasses.replace(GLM, max_pixels=25_088),
}
CLIP = CLIP_PRESETS["clip-vit-l-14"]
SIGLIP = SIGLIP_PRESETS["siglip-so400m-14-224"]
INTERN_VL = INTERN_VL_PRESETS["internvl3-hf"]
CLIP_PADDED = dataclasses.replace(CLIP, resize=ShortestEdgeResize(20), crop_size=Size(24, 25))
SIGLIP_BILINEAR = dataclasses.replace(
    SIGLIP, resize=ExactResize(64, 48), resample_filter=ResampleFilter.BILINEAR, patch_size=None
)
INTERN_VL_SMALL = dataclasses.replace(INTERN_VL, tile_size=28, max_tiles=6)
TILE_CONFIGS: dict[str, ProcessorConfig] = {
    "CLIP224": CLIP,
    "CLIP336": CLIP_PRESETS["clip-vit-l-14-336"],
    "CLIPpad": CLIP_PADDED,
    "SIGLIP224": SIGLIP,
    "SIGLIP384": SIGLIP_PRESETS["siglip-so400m-14-384"],
    "SIGLIPbil": SIGLIP_BILINEAR,
    "IVL": INTERN_VL,
    "IVLs": INTERN_VL_SMALL,
}
_KERNELS = {
    "ATEN": ResampleKernel.ATEN_U8,
    "PIL": ResampleKernel.PILLOW_12_2,
    "PIL13": ResampleKernel.PILLOW_13,
}
_GLM5_SMALL = dataclasses.replace(GLM5, max_image_tokens=16)
_KIMI_VL_SMALL = dataclasses.replace(KIMI_VL, in_token_limit=64)
_KIMI_VL_CLIP = dataclasses.replace(_KIMI_VL_SMALL, image_mean=CLIP_MEAN, image_std=CLIP_STD)
_KIMI_VL_CROPPED = dataclasses.replace(_KIMI_VL_SMALL, pad_input=False)
_WHITE = dataclasses.replace(QWEN3, alpha=AlphaPolicy.WHITE)

_FURTHER: list[tuple[str, Any, int, int, int, str, str]] = [
    ("GLM5", GLM5, 29, 27, 3, "ATEN", "7f3a814b6f6f0b333c551579d35896d5dc53261573490c05fd3bace1d5ec3e32"),
    ("GLM5", GLM5, 29, 27, 3, "PIL", "78bf9db93bdbf81e612861cb9396186a93edbd32feeda83de7387a5f8c00e155"),
    ("GLM5", GLM5, 300, 200, 3, "ATEN", "133e502f4d752d26b40aab4dfac2bc4c2fe0bff9e6b959f7e8f731868c6be530"),
    ("GLM5", GLM5, 300, 200, 3, "PIL", "b732ab4a263a8bb2967931fa3540c1cb21660df96e7bb86001227ed52519dd57"),
    ("GLM5s", _GLM5_SMALL, 300, 200, 3, "ATEN", "18b914d2be6f9eab65feb5feae0b9e383edba61c998eb1e951c71be70ecb4f82"),
    ("GLM5s", _GLM5_SMALL, 300, 200, 3, "PIL", "c07cedc7bae79e33757d6ccde65a5c26d118b31e882fdc87e527e002101dfca1"),
    ("GLM5s", _GLM5_SMALL, 150, 400, 3, "ATEN", "4d4332c46b968fdb92ec27f7d69faa04720c13dc72ccec75e2d8408fee469421"),
    ("GLM5s", _GLM5_SMALL, 150, 400, 3, "PIL", "d08a8c3f654405e4572aa0b0f85f6c5f345822fa58780ca144e6f0282d936ea2"),
    ("GLM5s", _GLM5_SMALL, 150, 400, 3, "PIL13", "66a244f5fb20d9a1f016f65943b32fcd93c1d9322c9fb57a656c68deb51605ac"),
    ("KVL", KIMI_VL, 29, 27, 3, "PIL", "9db90556328f20c94b218ebd62189eb526d189a101c8a057a7fb13e57ff00a98"),
    ("KVL", KIMI_VL, 225, 223, 3, "PIL", "f3efd020168eba4a8c0d755b39f85857e21e478cb49565c7130ce612a3002a3a"),
    ("KVL", KIMI_VL, 300, 200, 3, "PIL", "965c4bcfdf262d155b65543a86156ddfb370d316365c4c2ae1f04e7613341e15"),
    ("KVL", KIMI_VL, 150, 400, 3, "PIL", "7deb9a5b8ea91f548808578c1ffc4601cc578081ddc6bbcfc2b97694117c0573"),
    ("KVLs", _KIMI_VL_SMALL, 225, 223, 3, "PIL", "b2aeac2721310ef999bc67742b9c45f602017f339a295c787d580a76cf17d4c7"),
    ("KVLs", _KIMI_VL_SMALL, 300, 200, 3, "PIL", "d659038bc7cdea8b585813b7d80f941c39d5927db762ae9383bc8a1e565cdf2e"),
    ("KVLs", _KIMI_VL_SMALL, 150, 400, 3, "PIL", "968cf3ca683f59469f6b7c44d97b90bab40e4f1b90e317354f5aa84d5b335f76"),
    ("KVLs", _KIMI_VL_SMALL, 150, 400, 3, "PIL13", "b5eae664af7975a1ec9797ef08c508985e836e5b71429e42d428ad6a2195c2fe"),
    ("KVLc", _KIMI_VL_CLIP, 300, 200, 3, "PIL", "19fb0ebe938c573fa50d24520cc97564a43eb6104bfdc9da0ab61c51d3810003"),
    ("KVLc", _KIMI_VL_CLIP, 150, 400, 3, "PIL", "689032c6222d30d504c1298fa9b593bc4149336e5d2bbfaa2e79fb1893f64117"),
    ("KVLc", _KIMI_VL_CLIP, 150, 400, 3, "PIL13", "894b4e02786a0772c92c7cf7383e4618c72e2d8be27c6522f3ed17467b6cb518"),
    (
        "KVLcrop",
        _KIMI_VL_CROPPED,
        225,
        223,
        3,
        "PIL",
        "e46ca9c2ab6757e62c3c0ecab55b8589351b2761cf1849e37a78172177801c16",
    ),
    ("Q3-gray", QWEN3, 300, 200, 1, "ATEN", "7927ba49402fe61fde6708712ba22f9226e79243e3e88f4b7123e853920a72a1"),
    ("Q3-gray", QWEN3, 300, 200, 1, "PIL", "d0c374781230036bd2bf0fd5be3bd47195ab9de5e39f5ba447aa7d783dbf28a0"),
    ("Q3-white", _WHITE, 300, 200, 4, "ATEN", "ac10f9aa8c57fcf56389418089752219cee6ee8099055792589709fa82e55d79"),
    ("Q3-white", _WHITE, 300, 200, 4, "PIL", "a3b65e35f6ae5083ac286ae8c937d6ebdba8a34ceb1db2fa73ae9d8972b849a0"),
    ("Q3-drop", QWEN3, 300, 200, 4, "ATEN", "1009255d7260d63ad908159cb835f6a21f8deed6ea2e32ec9660acad12166fc1"),
    ("Q3-drop", QWEN3, 300, 200, 4, "PIL", "9f13d022a47d86213b5b7c29fe513d2d4c9e586a444db0639484feaebe6cf75c"),
]


@dataclasses.dataclass(frozen=True)
class Golden:
    """One image under one config and resize arithmetic."""

    name: str
    config: ProcessorConfig
    size: Size
    channels: int
    digests: dict[ElementType, str]
    """SHA-256 of `pixel_values`, or how it begins."""

    def __str__(self) -> str:
        return f"{self.name}-{self.size.width_px}x{self.size.height_px}"


def goldens() -> Iterator[Golden]:
    """Yield all that is known, for the Pillow orders also where another one gives the same bytes."""
    configs = {**_CONFIGS, **TILE_CONFIGS}
    for entry in [*_DATA["pipelines"], *TILE_PIPELINES]:
        size = Size(entry["width_px"], entry["height_px"])
        for variant, digests in entry["sha256"].items():
            config: Any = dataclasses.replace(configs[entry["config"]], resample_kernel=_KERNELS[variant])  # type: ignore[call-arg]
            yield Golden(
                f"{entry['config']}-{variant}", config, size, 3, {ElementType[key]: sha for key, sha in digests.items()}
            )
    for name, config, width_px, height_px, channels, variant, digest in _FURTHER:
        chosen = dataclasses.replace(config, resample_kernel=_KERNELS[variant])
        yield Golden(f"{name}-{variant}", chosen, Size(width_px, height_px), channels, {ElementType.FLOAT32: digest})


def generated_image(size: Size, channels: int) -> Image.Image:
    """The image that the digests were made of; one channel is the first of three."""
    x, y = np.meshgrid(np.arange(size.width_px), np.arange(size.height_px))
    planes = [
        (3 * x * x + 5 * y * y + 7 * x * y + 11 * x + 13 * y + 97 * c + (x * y * (c + 1)) // 16) % 256
        for c in range(channels)
    ]
    pixels = np.stack(planes, axis=2).astype(np.uint8)
    return Image.fromarray(pixels[..., 0] if channels == 1 else pixels)


def in_reference_words(plan: ImagePlan) -> ReferencePlan:
    """Return a plan of any kind as the reference has it."""
    grid = padding = tile_grid = crop = None
    match plan:
        case PatchGridPlan():
            grid = (plan.grid_thw.t, plan.grid_thw.h, plan.grid_thw.w)
            padding = (plan.padding.right_px, plan.padding.bottom_px)
            crop = plan.crop
        case TilePlan(tile_grid=tiles):
            tile_grid = (tiles.columns, tiles.rows, int(tiles.has_thumbnail))
        case FixedSizePlan():
            crop = None if plan.crop == Crop(0, 0, plan.resized_size) else plan.crop
        case _:
            raise TypeError(f"Expected a kind of plan that the reference knows, got {type(plan).__name__}")
    return ReferencePlan(
        original_size=(plan.original_size.width_px, plan.original_size.height_px),
        resized_size=(plan.resized_size.width_px, plan.resized_size.height_px),
        padding=padding or (0, 0),
        grid_thw=grid or (0, 0, 0),
        token_count=plan.token_count,
        tile_grid=tile_grid,
        crop=None if crop is None else (crop.left_px, crop.top_px, crop.size.width_px, crop.size.height_px),
    )


def prepared(golden: Golden) -> tuple[PreparedPixels, ImagePlan]:
    """Return what a transform takes."""
    plan = golden.config.plan(golden.size)
    return prepare_image(generated_image(golden.size, golden.channels), plan, golden.config), plan


def cpu_rows(image: Image.Image, config: ProcessorConfig, element_type: ElementType) -> NDArray[np.uint8]:
    """Return the bytes that the CPU makes."""
    plan = config.plan(Size(*image.size))
    rows = np.empty(plan.feature_bytes(element_type), np.uint8)
    CpuTransform(config, element_type).rows_into(prepare_image(image, plan, config), plan, rows)
    return rows


def sha256(data: NDArray[Any]) -> str:
    """Return the digest of an array's bytes."""
    return hashlib.sha256(np.ascontiguousarray(data).tobytes()).hexdigest()
