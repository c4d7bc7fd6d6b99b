"""The preset files of `monopath serve`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from monopath.cli.configuration.places import PresetFile
from monopath.cli.faults import UserFault
from monopath.cli.options import read_text

if TYPE_CHECKING:
    from monopath_server.processors.family import ProcessorConfig

__all__ = ["read_presets"]


def read_presets(files: Iterable[PresetFile]) -> tuple[dict[str, ProcessorConfig], list[str]]:
    """Read all files. Returns the configs by name, and what is wrong with any of the files."""
    from monopath_server.faults import ConfigFault
    from monopath_server.processors.checkpoint_json import parse_checkpoint_json

    presets: dict[str, ProcessorConfig] = {}
    faults: list[str] = []
    for file in files:
        if file.name in presets:
            faults.append(f"preset {file.name} ({file.path}):\n  Expected each name once, got it again")
            continue
        try:
            parsed = parse_checkpoint_json(read_text(file.path, f"preset {file.name}"))
        except UserFault as fault:
            faults.append(fault.text)
        except ConfigFault as fault:
            lines = (f"  {f'{wrong.field}: ' if wrong.field else ''}{wrong.description}" for wrong in fault.violations)
            faults.append("\n".join((f"preset {file.name} ({file.path}):", *lines)))
        else:
            presets[file.name] = parsed.config
            for warning in parsed.warnings:
                logging.getLogger(__name__).warning(
                    "preset %s (%s): %s: %s", file.name, file.path, warning.field, warning.description
                )
    return presets, faults
