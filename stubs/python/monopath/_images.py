"""What a caller may send: images for the deferred paths, finished features for the local one."""

from __future__ import annotations

import pathlib
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from monopath._enums import PixelFormat, PixelFormatName, pixel_format_number
from monopath._records import FeatureArray, GridThw, Size, TileGrid
from monopath.v1 import image_pb2, location_pb2

if TYPE_CHECKING:
    import torch

__all__ = [
    "Image",
    "ImageInput",
    "Item",
    "LocalFeatures",
    "RawImage",
    "as_item",
    "image_source",
    "load",
    "tensor_array",
]

_CHANNEL_COUNTS = {PixelFormat.GRAY8: 1, PixelFormat.GRAY_ALPHA8: 2, PixelFormat.RGB8: 3, PixelFormat.RGBA8: 4}
_SHA256_BYTES = 32


@dataclass(frozen=True, slots=True, eq=False)
class RawImage:
    """Decoded pixels, with the format said and never guessed.

    Raises TypeError for pixels that are no uint8 array, and ValueError for a shape that is not the format's.
    """

    pixels: npt.NDArray[np.uint8]
    """uint8 [height, width, channels], in any strides; GRAY8 also [height, width]."""
    format: PixelFormatName

    def __post_init__(self) -> None:
        pixel_format_number(self.format)
        _check_pixels(self.pixels)
        channel_count = _CHANNEL_COUNTS[PixelFormat(self.format)]
        shape = self.pixels.shape
        if not (len(shape) == 3 and shape[2] == channel_count) and not (len(shape) == 2 and channel_count == 1):
            raise ValueError(
                f"Expected {self.format} pixels of shape [height, width, {channel_count}], got {list(shape)}"
            )


Image: TypeAlias = bytes | pathlib.Path | RawImage
"""`bytes` are an encoded file, a `Path` is one that this client reads, a `RawImage` is decoded pixels."""


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """An image with what may be said about it. Raises TypeError or ValueError for parts that cannot be."""

    image: Image
    label: str = ""
    """Free text; comes back with the item's result."""
    expected_sha256: bytes = b""
    """SHA-256 that the image's bytes must have: 32 bytes, or none. The server checks it before it decodes."""
    traceparent: str = ""
    """W3C trace context of this item."""

    def __post_init__(self) -> None:
        _check_image(self.image)
        _check_text("label", self.label)
        _check_text("traceparent", self.traceparent)
        _check_digest("expected_sha256", self.expected_sha256)


ImageInput: TypeAlias = Image | Item


@dataclass(frozen=True, slots=True, eq=False)
class LocalFeatures:
    """Finished features of one image. Raises TypeError or ValueError for a text or digest that is none."""

    array: FeatureArray | torch.Tensor
    """Of the plan's shape, [rows, 3, height, width]: numpy (bfloat16: `ml_dtypes.bfloat16`), or torch on the CPU.

    It is read while it is sent: leave it unchanged until its result has come.
    """
    original_size: Size
    """Size of the image that the features were made of, after the config's orientation policy was applied."""
    grid_thw: GridThw | None = None
    """The patch grid that the caller computed. Must be the plan's; None for a family that has none."""
    token_count: int | None = None
    """The token count that the caller computed. Must be the plan's. None: the one that the stream's config gives."""
    label: str = ""
    content_sha256: bytes = b""
    """SHA-256 of the source image, if it is wanted in the provenance: 32 bytes, or none."""
    traceparent: str = ""
    tile_grid: TileGrid | None = None
    """The tiles that the caller computed, which must be the plan's. None: not said, or none."""

    def __post_init__(self) -> None:
        _check_text("label", self.label)
        _check_text("traceparent", self.traceparent)
        _check_digest("content_sha256", self.content_sha256)


def as_item(image: ImageInput) -> Item:
    """Return the image as an item, or raise TypeError that says what to give."""
    return image if isinstance(image, Item) else Item(image)


def load(item: Item) -> Item:
    """Read the item's file, if it is one. Blocks. Raises OSError."""
    return replace(item, image=item.image.read_bytes()) if isinstance(item.image, pathlib.Path) else item


def is_file(value: object) -> bool:
    """Return whether `load` would read a file."""
    return isinstance(value.image if isinstance(value, Item) else value, pathlib.Path)


def image_source(
    image: bytes | RawImage, handle: location_pb2.SharedMemoryHandle | None = None
) -> image_pb2.ImageSource:
    """Return the message of an image whose bytes are in memory; they go into it unless they lie where `handle` says."""
    if isinstance(image, RawImage):
        height_px, width_px = image.pixels.shape[:2]
        pixels = image_pb2.RawPixels(
            width_px=width_px, height_px=height_px, format=pixel_format_number(image.format), shared_memory=handle
        )
        if handle is None:
            # C order, whatever the strides were.
            pixels.data = image.pixels.tobytes()
        return image_pb2.ImageSource(pixels=pixels)
    if handle is None:
        return image_pb2.ImageSource(encoded=image_pb2.EncodedImage(data=image))
    return image_pb2.ImageSource(encoded=image_pb2.EncodedImage(shared_memory=handle))


def tensor_array(features: FeatureArray | torch.Tensor) -> FeatureArray:
    """Return features as a little-endian numpy array in C order, without a copy where they are one.

    Raises TypeError for anything that is neither a numpy array nor a torch tensor, or of another element type than the
    contract's, and ValueError for a tensor that is not on the CPU.
    """
    array = features if isinstance(features, np.ndarray) else _from_torch(features)
    if array.dtype.newbyteorder("<") not in _FEATURE_TYPES:
        raise TypeError(f"Expected features of uint8, float32, float16 or bfloat16, got {array.dtype}")
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))


_FEATURE_TYPES = (np.dtype(np.uint8), np.dtype("<f4"), np.dtype("<f2"), np.dtype(ml_dtypes.bfloat16))


def _from_torch(features: torch.Tensor) -> FeatureArray:
    # A tensor can only come from a torch that the caller imported.
    torch_module = sys.modules.get("torch")
    if torch_module is None or not isinstance(features, torch_module.Tensor):
        raise TypeError(f"Expected features as a numpy array or a torch tensor, got {type(features).__name__}")
    if features.device.type != "cpu":
        raise ValueError(f"Expected features on the CPU, got a tensor on {features.device}")
    tensor = features.detach()
    if tensor.dtype == torch_module.bfloat16:
        bits: FeatureArray = tensor.contiguous().view(torch_module.int16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    array: FeatureArray = tensor.numpy()
    return array


def _check_image(image: object) -> None:
    if isinstance(image, str):
        raise TypeError("Expected an image, got str; give pathlib.Path(...) for the name of a file")
    if not isinstance(image, bytes | pathlib.Path | RawImage):
        raise TypeError(
            "Expected an image as bytes of a file, pathlib.Path, RawImage(pixels, format) or Item, "
            f"got {type(image).__name__}"
        )


def _check_pixels(pixels: object) -> None:
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8:
        got = pixels.dtype if isinstance(pixels, np.ndarray) else type(pixels).__name__
        raise TypeError(f"Expected pixels to be a numpy array of uint8, got {got}")


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"Expected {name} to be str, got {type(text).__name__}")


def _check_digest(name: str, digest: object) -> None:
    if not isinstance(digest, bytes) or len(digest) not in (0, _SHA256_BYTES):
        got = f"{len(digest)} bytes" if isinstance(digest, bytes) else type(digest).__name__
        raise ValueError(f"Expected {name} of {_SHA256_BYTES} bytes, got {got}")
