"""The streams that `monopath preview` shows beside each other: one config on one path each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from monopath import Orientation, PreprocessingPath, ResampleKernel
from monopath.cli.faults import UserFault
from monopath.cli.options import DEFAULT_PRESET, ProcessorChoice, read_text

__all__ = ["View", "chosen_views"]

_MAX_VIEWS = 2


@dataclass(frozen=True, slots=True)
class View:
    """One stream, and how it is called where another one stands beside it."""

    name: str
    path: PreprocessingPath
    choice: ProcessorChoice


def chosen_views(
    paths: Sequence[PreprocessingPath],
    presets: Sequence[str],
    configs: Sequence[Path],
    kernels: Sequence[ResampleKernel],
    orientation: Orientation | None,
) -> list[View]:
    """Return one or two views: each config with each resize arithmetic on each path.

    Raises UserFault for more than two, and for a file that cannot be read.
    """
    if not presets and not configs:
        presets = [DEFAULT_PRESET]
    sources: list[tuple[str, str | None, str | None]] = [(preset, preset, None) for preset in presets]
    sources += [(config.name, None, read_text(config, "--config")) for config in configs]
    wanted_kernels: Sequence[ResampleKernel | None] = kernels or [None]
    combinations = list(itertools.product(sources, wanted_kernels, paths))
    if len(combinations) > _MAX_VIEWS:
        raise UserFault(
            f"Expected at most {_MAX_VIEWS} pictures of an image, got {len(combinations)}: each --preset and --config "
            "with each --resample-kernel on each --path"
        )
    return [
        View(
            name if len(wanted_kernels) == 1 else f"{name}, {kernel}",
            path,
            ProcessorChoice(preset, checkpoint_json, kernel, orientation),
        )
        for (name, preset, checkpoint_json), kernel, path in combinations
    ]
