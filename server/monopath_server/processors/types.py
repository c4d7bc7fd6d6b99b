"""Sizes, grids, plans and the named choices that decide an image's bytes. Plain values, shared by every part."""

from __future__ import annotations

import abc
import enum
import math
from dataclasses import dataclass

__all__ = [
    "PILLOW_KERNELS",
    "AlphaPolicy",
    "Background",
    "BackgroundPattern",
    "CompositeRounding",
    "Crop",
    "ElementType",
    "FillStage",
    "GridTHW",
    "ImagePlan",
    "Normalization",
    "OrientationPolicy",
    "Padding",
    "ResampleFilter",
    "ResampleKernel",
    "RowLayout",
    "Size",
    "Sweep",
    "TileGrid",
]


@dataclass(frozen=True, slots=True)
class Size:
    """Width and height of an image, in pixels."""

    width_px: int
    height_px: int

    def __str__(self) -> str:
        return f"{self.width_px} x {self.height_px}"


@dataclass(frozen=True, slots=True)
class Padding:
    """Pixels added behind the resized image; nothing is ever added on the left or on top."""

    right_px: int
    bottom_px: int


@dataclass(frozen=True, slots=True)
class GridTHW:
    """A patch grid: frames, patch rows and patch columns."""

    t: int
    h: int
    w: int

    def __str__(self) -> str:
        return f"{self.t} x {self.h} x {self.w}"

    @property
    def patch_count(self) -> int:
        """Number of patches, which is the number of rows of the features."""
        return self.t * self.h * self.w


@dataclass(frozen=True, slots=True)
class TileGrid:
    """Tiles of one size, and whether the whole image is one more, the last."""

    columns: int
    rows: int
    has_thumbnail: bool
    tile_size: int
    """Side of a tile in pixels."""

    def __str__(self) -> str:
        thumbnail = " and a thumbnail" if self.has_thumbnail else ""
        return f"{self.columns} x {self.rows} tiles of {self.tile_size} pixels{thumbnail}"

    @property
    def tile_count(self) -> int:
        """Number of tiles, which is the number of rows of the features."""
        return self.columns * self.rows + self.has_thumbnail


class ElementType(enum.StrEnum):
    """Type of one element of `pixel_values`. `UINT8` is the padded pixel itself, without normalisation."""

    UINT8 = enum.auto()
    FLOAT32 = enum.auto()
    BFLOAT16 = enum.auto()
    FLOAT16 = enum.auto()

    @property
    def itemsize(self) -> int:
        """Size of one element in bytes."""
        match self:
            case ElementType.UINT8:
                return 1
            case ElementType.BFLOAT16 | ElementType.FLOAT16:
                return 2
            case ElementType.FLOAT32:
                return 4


class ResampleKernel(enum.StrEnum):
    """The resize arithmetic, named by the release of Pillow that brought it, or by torchvision's kernel.

    The weights are the same in Pillow's three; the order of the two passes is not, and the image is rounded to uint8
    between them, so the order decides the bytes. torchvision rounds the same weights to fewer bits.
    """

    PILLOW_11 = enum.auto()
    """Pillow up to 12.1.1: always horizontal first."""
    PILLOW_12_2 = enum.auto()
    """Pillow 12.2 and 12.3: vertical first for images more than 100 times as high as wide."""
    PILLOW_13 = enum.auto()
    """Pillow 13: vertical first where the height shrinks by more than twice what the width does."""
    ATEN_U8 = enum.auto()
    """torchvision's antialiased resize of uint8 on a CPU: weights of 16 bits, always horizontal first."""


PILLOW_KERNELS = (ResampleKernel.PILLOW_11, ResampleKernel.PILLOW_12_2, ResampleKernel.PILLOW_13)
"""Those of Pillow's releases."""


class ResampleFilter(enum.StrEnum):
    """The shape of the resize's weights."""

    BICUBIC = enum.auto()
    """Keys' cubic with a = -0.5, widened where the image shrinks."""
    BILINEAR = enum.auto()
    """A triangle, widened where the image shrinks."""


class Normalization(enum.StrEnum):
    """The order and the roundings in which a uint8 pixel becomes a float32 value."""

    NUMPY = enum.auto()
    """Kimi-K2.5 and K3: numpy in place, three float64 operations, each rounded to float32."""
    PIL_BACKEND = enum.auto()
    """Rescale in float64, subtract and divide in float32: transformers' PIL backend, ToTensor with Normalize."""
    TORCHVISION = enum.auto()
    """Subtract and divide in float32 with constants scaled by 255: transformers' torchvision backend."""


class AlphaPolicy(enum.StrEnum):
    """What becomes of an alpha channel in families whose processor sees RGB only."""

    DROP = enum.auto()
    """The stored colours are used: sglang's loader, transformers up to 5.20."""
    WHITE = enum.auto()
    """Composited on white: vLLM's loader, transformers from 5.21 on."""


class CompositeRounding(enum.StrEnum):
    """How a colour over its background becomes a whole number."""

    TRUNCATED = enum.auto()
    """Float32 operations, fraction dropped: Kimi-K3."""
    NEAREST = enum.auto()
    """The nearest whole number: Pillow's own."""


class OrientationPolicy(enum.StrEnum):
    """What happens to an EXIF orientation."""

    KEEP = enum.auto()
    """Pixels as stored; what the Kimi checkpoints do."""
    APPLY = enum.auto()
    """Pixels are transposed once, before any size is taken."""


class FillStage(enum.StrEnum):
    """When an image is turned into RGB over its background: before or after it is resized."""

    BEFORE_RESIZE = enum.auto()
    AFTER_RESIZE = enum.auto()


class BackgroundPattern(enum.StrEnum):
    """What is shown behind transparent pixels."""

    WHITE = enum.auto()
    BLACK = enum.auto()
    GRAY = enum.auto()
    CHESSBOARD = enum.auto()


@dataclass(frozen=True, slots=True)
class Background:
    """The background that transparent pixels are composited on. The chessboard fields matter to a chessboard only."""

    pattern: BackgroundPattern
    chessboard_square_size: int = 16
    """Side of one square in pixels of the image that is composited."""
    chessboard_square_on_top_left: bool = True
    """Whether the top left square is a white one."""
    chessboard_white_value: int = 255
    chessboard_gray_value: int = 200


@dataclass(frozen=True, slots=True)
class Crop:
    """A window onto a resized image. What lies outside the image is zeros: the offsets may be negative."""

    left_px: int
    top_px: int
    size: Size


@dataclass(frozen=True, slots=True)
class RowLayout:
    """What one row of features holds, and how rows are ordered."""

    patch_height_px: int
    patch_width_px: int
    window_size: int = 1
    """Rows are grouped by square windows of this many patches a side; 1: raster order."""
    temporal_copies: int = 1
    """How often a row has each of its patch's channels, one copy behind the other."""

    def __str__(self) -> str:
        return (
            f"{self.patch_width_px} x {self.patch_height_px} pixels, windows of {self.window_size} "
            f"and {self.temporal_copies} temporal copies"
        )

    @property
    def row_elements(self) -> int:
        """Elements of one row."""
        return 3 * self.temporal_copies * self.patch_height_px * self.patch_width_px


@dataclass(frozen=True, slots=True)
class Sweep:
    """One resize of a whole image, and the patches that are cut out of it. All that a transform knows of a plan."""

    resized_size: Size
    crop: Crop
    """What is used of the resized image. Where it is smaller than the grid, zeros follow on the right and below."""
    grid_rows: int
    grid_columns: int
    """Patches down and across."""
    first_row: int = 0
    """Row of the image's features that the first patch becomes."""

    @property
    def row_count(self) -> int:
        """Rows of features."""
        return self.grid_rows * self.grid_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePlan(abc.ABC):
    """Everything that follows from an image's size alone. Its kinds are in `processors.plans`."""

    original_size: Size
    """Size of the image as it enters the processor: decoded, and transposed where the orientation is applied."""
    resized_size: Size
    """Before any padding and any crop."""
    token_count: int
    """Tokens the image takes in the model's sequence; 0 where the config does not say."""

    @property
    @abc.abstractmethod
    def row_count(self) -> int:
        """Rows of `pixel_values`."""

    @property
    @abc.abstractmethod
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row: 3 first, height and width last."""

    @property
    @abc.abstractmethod
    def layout(self) -> RowLayout:
        """What a row holds."""

    @property
    @abc.abstractmethod
    def sweeps(self) -> tuple[Sweep, ...]:
        """How the rows are made; each row by one sweep."""

    @property
    def row_elements(self) -> int:
        """Elements of one row."""
        return math.prod(self.row_shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of `pixel_values`."""
        return (self.row_count, *self.row_shape)

    def feature_bytes(self, element_type: ElementType) -> int:
        """Size of `pixel_values` in bytes."""
        return self.row_count * self.row_elements * element_type.itemsize
