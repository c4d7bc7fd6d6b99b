"""A slow, plain, independent statement of what the features of an image are.

It shares no code with `processors`, `media` and `transforms`, so that holding them against it means something.
"""

from __future__ import annotations

from monopath_server.reference.checkpoints import RELEASED_PRESETS
from monopath_server.reference.config import ReferenceBackground, ReferenceConfig
from monopath_server.reference.families import AnyReference, reference_config, reference_plan
from monopath_server.reference.features import RawImage, ReferenceFeatures, UnreadableImageError, reference_features
from monopath_server.reference.generated import GeneratedImage, generated_images

__all__ = [
    "RELEASED_PRESETS",
    "AnyReference",
    "GeneratedImage",
    "RawImage",
    "ReferenceBackground",
    "ReferenceConfig",
    "ReferenceFeatures",
    "UnreadableImageError",
    "generated_images",
    "reference_config",
    "reference_features",
    "reference_plan",
]
