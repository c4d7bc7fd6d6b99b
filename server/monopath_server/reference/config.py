"""What the reference needs to know of a checkpoint, read from its `preprocessor_config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

__all__ = [
    "OrientationName",
    "ReferenceBackground",
    "ReferenceConfig",
    "ResampleKernelName",
    "one_of",
    "per_channel",
    "square_side",
]

BackgroundPattern = Literal["white", "black", "gray", "chessboard"]
FillStage = Literal["before_resize", "after_resize"]
ResampleKernelName = Literal["PILLOW_11", "PILLOW_12_2", "PILLOW_13", "ATEN_U8"]
OrientationName = Literal["KEEP", "APPLY"]


@dataclass(frozen=True, slots=True)
class ReferenceBackground:
    """What an image with transparency is laid upon; the defaults are those of the checkpoint's own class."""

    pattern: BackgroundPattern = "black"
    chessboard_square_size: int = 16
    """Side of one square, in pixels."""
    chessboard_square_on_top_left: bool = True
    """Whether the square in the top left corner is white."""
    chessboard_white_value: int = 255
    chessboard_gray_value: int = 200


@dataclass(frozen=True, slots=True)
class ReferenceConfig:
    """The fields of a Kimi checkpoint that change a pixel or a token count."""

    patch_size: int
    merge_kernel_size: int
    in_patch_limit: int
    patch_limit_on_one_side: int
    image_mean: tuple[float, float, float]
    image_std: tuple[float, float, float]
    fixed_output_tokens: int | None = None
    background: ReferenceBackground | None = None
    """None: transparency is ignored and the stored colour is used."""
    fill_stage: FillStage = "before_resize"
    """Whether colours become RGB before the resize (K2.5) or after it (K3)."""
    resample_kernel: ResampleKernelName = "PILLOW_13"
    orientation: OrientationName = "KEEP"

    @classmethod
    def from_checkpoint_json(
        cls,
        checkpoint: Mapping[str, Any],
        resample_kernel: str = "PILLOW_13",
        orientation: str = "KEEP",
    ) -> ReferenceConfig:
        """Reads a parsed `preprocessor_config.json`, nested under `media_proc_cfg` or flat.

        Raises:
            ValueError: A required key is missing, or a value has no meaning to the checkpoint.
        """
        values = checkpoint.get("media_proc_cfg", checkpoint)
        required = (
            "patch_size",
            "merge_kernel_size",
            "in_patch_limit",
            "patch_limit_on_one_side",
            "image_mean",
            "image_std",
        )
        missing = [key for key in required if key not in values]
        if missing:
            raise ValueError(f"Expected the keys {', '.join(required)}, got none for {', '.join(missing)}")
        fixed = values.get("fixed_output_tokens")
        background = values.get("transparent_bg_config")
        return cls(
            patch_size=int(values["patch_size"]),
            merge_kernel_size=square_side(values["merge_kernel_size"]),
            in_patch_limit=int(values["in_patch_limit"]),
            patch_limit_on_one_side=int(values["patch_limit_on_one_side"]),
            image_mean=per_channel(values["image_mean"]),
            image_std=per_channel(values["image_std"]),
            fixed_output_tokens=None if fixed is None else int(fixed),
            background=None if background is None else ReferenceBackground(**background),
            fill_stage=values.get("transparent_bg_fill_stage") or "before_resize",
            resample_kernel=cast("ResampleKernelName", resample_kernel),
            orientation=cast("OrientationName", orientation),
        )

    def __post_init__(self) -> None:
        """Refuses the names for which the checkpoint's own code would fail or do nothing."""
        one_of("transparent_bg_fill_stage", self.fill_stage, get_args(FillStage))
        one_of("resample kernel", self.resample_kernel, get_args(ResampleKernelName))
        one_of("orientation", self.orientation, get_args(OrientationName))
        if self.background is not None:
            one_of("pattern", self.background.pattern, get_args(BackgroundPattern))


def one_of(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"Expected {what} to be one of {', '.join(allowed)}, got {value!r}")


def square_side(value: int | list[int]) -> int:
    if isinstance(value, int):
        return value
    if len(set(value)) != 1:
        raise ValueError(f"Expected merge_kernel_size to be one number or equal numbers, got {value}")
    return int(value[0])


def per_channel(value: float | list[float]) -> tuple[float, float, float]:
    numbers = [value] if isinstance(value, int | float) else list(value)
    if len(numbers) == 1:
        numbers *= 3
    if len(numbers) != 3:
        raise ValueError(f"Expected 1 or 3 values, one a channel, got {len(numbers)}")
    return float(numbers[0]), float(numbers[1]), float(numbers[2])
