"""`monopath capabilities`: what a server can do, and why it cannot do the rest."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from google.protobuf import json_format
from rich.console import Console
from rich.table import Table

from monopath import Capabilities
from monopath.cli.connection import connected
from monopath.cli.connection_options import ServerChoice, with_server
from monopath.cli.options import JsonOption
from monopath.cli.output import bytes_text, out_console, printable, write_json_line

__all__ = ["capabilities"]


@with_server
def capabilities(
    server: ServerChoice | None = None,
    json: JsonOption = False,
) -> None:
    """Say which paths, presets, element types, formats and limits a server has.

    Without --server: what this machine would have, GPUs included.
    """
    with connected(server, needs_cuda=True) as client:
        found = client.capabilities()
    if json:
        write_json_line(_fields(found))
    else:
        _write(out_console(), found)


def _fields(found: Capabilities) -> dict[str, object]:
    return {
        "contract_version": found.contract_version,
        "server_version": found.server_version,
        "paths": [dataclasses.asdict(path) for path in found.paths],
        "devices": [dataclasses.asdict(device) for device in found.devices],
        "presets": [
            {
                "name": preset.name,
                "config_sha256": preset.config_sha256.hex(),
                "processor": json_format.MessageToDict(preset.processor, preserving_proto_field_name=True),
            }
            for preset in found.presets
        ],
        "data_types": list(found.data_types),
        "transports": [dataclasses.asdict(transport) for transport in found.transports],
        "limits": dataclasses.asdict(found.limits),
        "image_formats": list(found.image_formats),
        "pixel_formats": list(found.pixel_formats),
        "resample_kernels": list(found.resample_kernels),
        "pillow_version": found.pillow_version,
        "pillow_resample_kernel": found.pillow_resample_kernel,
    }


def _write(console: Console, found: Capabilities) -> None:
    limits = found.limits
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    _rows(table, "server", [f"{found.server_version}, contract {found.contract_version}"])
    _rows(table, "paths", (_availability(path.name, path.unavailable_reason) for path in found.paths))
    _rows(
        table,
        "devices",
        (
            f"{device.id}  {device.name}" + (f", {bytes_text(device.memory_bytes)}" if device.memory_bytes else "")
            for device in found.devices
        ),
    )
    _rows(table, "presets", (f"{preset.name}  {preset.config_sha256.hex()[:12]}" for preset in found.presets))
    _rows(table, "element types", [", ".join(found.data_types)])
    _rows(table, "transports", (_availability(each.name, each.unavailable_reason) for each in found.transports))
    _rows(table, "image formats", [", ".join(found.image_formats)])
    _rows(table, "pixel formats", [", ".join(found.pixel_formats)])
    _rows(table, "resize", [", ".join(found.resample_kernels)])
    _rows(table, "Pillow", [f"{found.pillow_version} (resizes as {found.pillow_resample_kernel})"])
    _rows(
        table,
        "limits",
        [
            f"image: {bytes_text(limits.max_image_bytes)}, {limits.max_image_side_px:,} px a side",
            f"image: {limits.max_image_pixels:,} px in all",
            f"features: {bytes_text(limits.max_feature_bytes)} an image, {bytes_text(limits.chunk_bytes)} a message",
            f"stream: {limits.max_unfinished_items} images or {bytes_text(limits.max_unfinished_bytes)} unfinished",
            f"request: {bytes_text(limits.max_request_bytes)}",
        ],
    )
    console.print(table)


def _availability(name: str, unavailable_reason: str) -> str:
    return f"{name}: no, {unavailable_reason}" if unavailable_reason else name


def _rows(table: Table, name: str, lines: Iterable[str]) -> None:
    for line in lines:
        table.add_row(name, printable(line))
        name = ""
