"""Options that more than one command has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from monopath import Alpha, Orientation, ResampleKernel
from monopath._arguments import ProcessorArguments
from monopath.cli.faults import UserFault

__all__ = [
    "DEFAULT_PRESET",
    "AlphaOption",
    "ConfigOption",
    "JsonOption",
    "OrientationOption",
    "PresetOption",
    "ProcessorChoice",
    "ResampleKernelOption",
    "SharedMemoryDirectoryOption",
    "choose_processor",
]

DEFAULT_PRESET = "kimi-k2.5"

SharedMemoryDirectoryOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        envvar="MONOPATH_SHARED_MEMORY_DIR",
        metavar="FOLDER",
        help="Where shared memory is: the server's folder of that name.",
        show_default="/dev/shm",  # noqa: S108 - where POSIX shared memory is on Linux
    ),
]
PresetOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="A processor config that the server has: kimi-k2.5, qwen3-vl, or another that `monopath capabilities` "
        "lists.",
        show_default=DEFAULT_PRESET,
    ),
]
ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The preprocessor_config.json of a checkpoint, instead of a preset.",
        show_default=False,
    ),
]
ResampleKernelOption: TypeAlias = Annotated[
    ResampleKernel | None,
    typer.Option(
        help="The resize arithmetic, to the bit: that of the Pillow release named, or torchvision's.",
        show_default="the config's own",
    ),
]
OrientationOption: TypeAlias = Annotated[
    Orientation | None,
    typer.Option(help="What to do with an EXIF orientation.", show_default="the config's own"),
]
AlphaOption: TypeAlias = Annotated[
    Alpha | None,
    typer.Option(
        help="What becomes of an alpha channel, in families that have the choice.", show_default="the config's own"
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Write one JSON object a line instead of a table.")]


@dataclass(frozen=True, slots=True)
class ProcessorChoice:
    """The processor config that the caller named."""

    preset: str | None
    checkpoint_json: str | None
    resample_kernel: ResampleKernel | None
    orientation: Orientation | None
    alpha: Alpha | None = None

    @property
    def arguments(self) -> ProcessorArguments:
        """The same as arguments of the client's methods."""
        return {
            "preset": self.preset,
            "checkpoint_json": self.checkpoint_json,
            "resample_kernel": self.resample_kernel,
            "orientation": self.orientation,
            "alpha": self.alpha,
        }


def choose_processor(
    preset: str | None,
    config: Path | None,
    resample_kernel: ResampleKernel | None,
    orientation: Orientation | None,
    alpha: Alpha | None,
) -> ProcessorChoice:
    """Return what was chosen. Raises UserFault for two configs, and for a file that cannot be read."""
    if config is None:
        return ProcessorChoice(preset or DEFAULT_PRESET, None, resample_kernel, orientation, alpha)
    if preset is not None:
        raise UserFault("Expected --preset or --config, got both")
    return ProcessorChoice(None, read_text(config, "--config"), resample_kernel, orientation, alpha)


def read_text(path: Path, option: str) -> str:
    """Return a file's text. Raises UserFault that names the option and the file."""
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise UserFault(f"{option}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserFault(f"{option}: expected UTF-8 text in {path}, got other bytes") from None
