"""The processor of the transformers library for the same models, where it is installed."""

from __future__ import annotations

import importlib
import importlib.util
import io
from collections.abc import Callable
from typing import Any

from PIL import Image

from monopath_server.processors.kimi.config import KimiConfig

__all__ = ["LibraryMissing", "library_processor"]

_MODULE = "transformers.models.kimi_k25.image_processing_kimi_k25"


class LibraryMissing(Exception):
    """The library cannot be compared with; the text says why."""


def library_processor(config: KimiConfig) -> Callable[[bytes], object]:
    """Return what turns a file into the library's `pixel_values` (float32 on the CPU), with one thread a call.

    The library has one class, of Kimi-K2.5; what Kimi-K3 does to an image without transparency differs in its limits
    only, so the class stands for both. It resizes in another order and is not exact, which is not what is compared.

    Raises:
        LibraryMissing: it is not installed, or has no such class.
    """
    missing = [name for name in ("transformers", "torch", "torchvision") if importlib.util.find_spec(name) is None]
    if missing:
        raise LibraryMissing(f"{', '.join(missing)} not installed")
    try:
        import torch

        processor: Any = importlib.import_module(_MODULE).Kimi_K25ImageProcessor(
            max_patches=config.in_patch_limit,
            patch_size=config.patch_size,
            merge_size=config.merge_kernel_size,
            size={
                "max_height": config.patch_limit_on_one_side,
                "max_width": config.patch_limit_on_one_side,
            },
            image_mean=list(config.image_mean),
            image_std=list(config.image_std),
        )
    except Exception as error:  # whatever another release, or a broken installation, raises
        raise LibraryMissing(
            f"transformers has no usable processor of Kimi ({type(error).__name__}: {error})"
        ) from None
    torch.set_num_threads(1)

    def run(data: bytes) -> object:
        return processor(images=Image.open(io.BytesIO(data)).convert("RGB"), return_tensors="pt")["pixel_values"]

    return run
