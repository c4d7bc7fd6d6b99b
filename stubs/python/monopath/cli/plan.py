"""`monopath plan`: grids, token counts and encoder ranks from sizes alone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from monopath import EncoderRankLoad, Orientation, PlannedImage, PlanReply
from monopath.cli.connection import connected
from monopath.cli.connection_options import ServerChoice, with_server
from monopath.cli.faults import ExitCode, UserFault, needs_server
from monopath.cli.options import (
    AlphaOption,
    ConfigOption,
    JsonOption,
    OrientationOption,
    PresetOption,
    ResampleKernelOption,
    choose_processor,
)
from monopath.cli.output import FileName, error_console, new_table, out_console, printable, size_text, write_json_line
from monopath.cli.report_output import plan_cells
from monopath.cli.reports import ReportedError, plan_fields

__all__ = ["plan"]

_SIZE = re.compile(r"(\d{1,9})x(\d{1,9})", re.ASCII)
_ANSWER_WITHIN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Sized:
    """One argument and its size."""

    label: str
    size: tuple[int, int]


@with_server
def plan(
    images: Annotated[
        list[str],
        typer.Argument(
            metavar="SIZE|IMAGE...",
            help="Sizes such as 1920x1080, and image files, of which only the header is read (needs monopath[server]).",
            show_default=False,
        ),
    ],
    ranks: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="Encoder ranks to share the images out to.", show_default=False),
    ] = None,
    preset: PresetOption = None,
    config: ConfigOption = None,
    resample_kernel: ResampleKernelOption = None,
    orientation: OrientationOption = None,
    alpha: AlphaOption = None,
    server: ServerChoice | None = None,
    json: JsonOption = False,
) -> None:
    """Say what will become of images: resized size, patch grid, token count, and the rank that would encode each.

    No pixel is decoded. Exit code 1: at least one size cannot be planned; 2: wrong arguments, or the server refused the
    config; 3: no server answers.
    """
    sized = [_sized(text, orientation) for text in images]
    choice = choose_processor(preset, config, resample_kernel, orientation, alpha)
    with connected(server) as client:
        reply = client.plan(
            [entry.size for entry in sized],
            **choice.arguments,
            encoder_rank_count=ranks,
            timeout_seconds=_ANSWER_WITHIN_SECONDS,
        )
    for warning in reply.warnings:
        error_console().print(f"warning: {warning.field}: {warning.description}")
    if json:
        _write_json(sized, reply)
    else:
        _write_tables(sized, reply)
    if any(planned.error is not None for planned in reply.images):
        raise typer.Exit(ExitCode.FAILED)


def _sized(text: str, orientation: Orientation | None) -> _Sized:
    match = _SIZE.fullmatch(text)
    if match is not None:
        return _Sized(text, (int(match[1]), int(match[2])))
    return _Sized(text, _file_size(Path(text), orientation))


def _file_size(file: Path, orientation: Orientation | None) -> tuple[int, int]:
    """Read an image's size from its header. Raises UserFault."""
    try:
        from monopath_server.faults import ItemFault
        from monopath_server.media.header import planned_size, probe_header
        from monopath_server.processors.types import OrientationPolicy
        from monopath_server.settings import Settings
    except ModuleNotFoundError as error:
        raise needs_server("Reading the sizes of image files", error) from None
    try:
        header = probe_header(file.read_bytes(), Settings().image_limits)
    except OSError as error:
        raise UserFault(
            f"Cannot read {file} (expected a size such as 1920x1080, or an image): {error.strerror}"
        ) from None
    except ItemFault as fault:
        raise UserFault(f"{file}: {fault.reason.name}: {fault.message}") from None
    size = planned_size(header, OrientationPolicy(orientation or Orientation.KEEP))
    return size.width_px, size.height_px


def _write_json(sized: list[_Sized], reply: PlanReply) -> None:
    for entry, planned in zip(sized, reply.images, strict=True):
        write_json_line(_image_fields(entry, planned))
    for load in reply.encoder_ranks:
        write_json_line(_load_fields(load))


def _image_fields(entry: _Sized, planned: PlannedImage) -> dict[str, object]:
    error = None if planned.error is None else ReportedError.of_item(planned.error)
    fields = plan_fields(planned.plan)
    return {
        "id": planned.id,
        "label": entry.label,
        **fields,
        "original_size": list(entry.size),
        "encoder_rank": planned.encoder_rank,
        "error": None if error is None else error.as_json(),
    }


def _load_fields(load: EncoderRankLoad) -> dict[str, object]:
    return {"encoder_rank": load.rank, "image_count": load.image_count, "patch_count": load.patch_count}


def _write_tables(sized: list[_Sized], reply: PlanReply) -> None:
    columns = ["#", "image", "size", "resized", "padding", "grid", "tokens"]
    if reply.encoder_ranks:
        columns.append("rank")
    table = new_table(*columns, name_column="image")
    for entry, planned in zip(sized, reply.images, strict=True):
        size, resized, grid, tokens = plan_cells(planned.plan)
        padding = "" if planned.plan is None else f"{planned.plan.padding.right_px}+{planned.plan.padding.bottom_px}"
        rank = "" if planned.encoder_rank is None else str(planned.encoder_rank)
        table.add_row(
            str(planned.id),
            FileName(entry.label),
            size or size_text(entry.size),
            resized,
            padding,
            grid,
            tokens if planned.error is None else printable("failed", "red"),
            *([rank] if reply.encoder_ranks else []),
        )
    console = out_console()
    console.print(table)
    if reply.encoder_ranks:
        loads = new_table("rank", "images", "patches")
        for load in reply.encoder_ranks:
            loads.add_row(str(load.rank), str(load.image_count), str(load.patch_count))
        console.print()
        console.print(loads)
    token_count = sum(planned.plan.token_count for planned in reply.images if planned.plan is not None)
    console.print(f"\n{token_count} tokens; config {reply.config_sha256.hex()[:12]}", soft_wrap=True)
    for entry, planned in zip(sized, reply.images, strict=True):
        if planned.error is not None:
            text = f"{entry.label}: {planned.error.reason}: {planned.error.message}"
            error_console().print(printable(text, "red"))
