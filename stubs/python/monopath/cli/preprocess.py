"""`monopath preprocess`: image files in, features out."""

from __future__ import annotations

import contextlib
import enum
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from monopath import DataType, PathT, PreprocessingPath, Ready, Result, Transport
from monopath.cli.connection import connected
from monopath.cli.connection_options import ServerChoice, with_server
from monopath.cli.faults import ExitCode, UserFault
from monopath.cli.features_file import FeaturesFile
from monopath.cli.options import (
    AlphaOption,
    ConfigOption,
    JsonOption,
    OrientationOption,
    PresetOption,
    ResampleKernelOption,
    SharedMemoryDirectoryOption,
    choose_processor,
)
from monopath.cli.output import error_console, printable
from monopath.cli.progress import progress, waiting
from monopath.cli.report_output import ReportOutput
from monopath.cli.reports import ImageReport
from monopath.cli.transfer import Transfer

__all__ = ["PathName", "check_files", "file_label", "preprocess"]


class PathName(enum.StrEnum):
    """The paths as the command line writes them."""

    DEFERRED_CPU = "deferred-cpu"
    DEFERRED_CUDA = "deferred-cuda"
    LOCAL = "local"


class TransportName(enum.StrEnum):
    """The transports as the command line writes them."""

    INLINE = "inline"
    SHARED_MEMORY = "shared-memory"


@with_server
def preprocess(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="Image files.", show_default=False)],
    path: Annotated[
        PathName,
        typer.Option(
            help="Who turns pixels into features: the server's CPU, the server's GPU, or this command (local; needs "
            "monopath[server]), whose features the server then checks."
        ),
    ] = PathName.DEFERRED_CPU,
    preset: PresetOption = None,
    config: ConfigOption = None,
    dtype: Annotated[
        DataType, typer.Option(help="Element type of the features. uint8: pixel values before normalisation.")
    ] = DataType.FLOAT32,
    transport: Annotated[
        TransportName,
        typer.Option(help="How images and features travel: in messages, or in shared memory of the server's host."),
    ] = TransportName.INLINE,
    shared_memory_dir: SharedMemoryDirectoryOption = None,
    resample_kernel: ResampleKernelOption = None,
    orientation: OrientationOption = None,
    alpha: AlphaOption = None,
    server: ServerChoice | None = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the features as safetensors: <id>.pixel_values, and <id>.grid_thw where there is a patch grid, "
            "for each image without an error. They are held in memory until all are done; after Ctrl-C nothing is "
            "written.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Turn image files into the features that a model's encoder reads.

    Results come in the order of the arguments. Exit code 1: at least one image failed (the others are done); 2: wrong
    arguments, or the server refused the config; 3: no server answers, or it was lost; 130: Ctrl-C, after what was done
    until then is told.
    """
    wire_path = PreprocessingPath[path.name]
    reports = [ImageReport(number, file, wire_path) for number, file in enumerate(images, start=1)]
    check_files(images)
    choice = choose_processor(preset, config, resample_kernel, orientation, alpha)
    features_file = None if out is None else FeaturesFile(out)
    output = ReportOutput(reports, as_json=json)
    metadata = {"path": str(wire_path)}

    def on_ready(ready: Ready) -> None:
        metadata.update(config_sha256=ready.config_sha256.hex(), server_version=ready.server_version)
        for warning in ready.warnings:
            error_console().print(f"warning: {warning.field}: {warning.description}")

    started_seconds = time.perf_counter()
    connection = connected(server, needs_cuda=path is PathName.DEFERRED_CUDA, shared_memory_directory=shared_memory_dir)
    with connection as client:
        started_seconds = time.perf_counter()
        with output, _discarding(out), progress("Preprocessing", len(reports), as_json=json) as advance:

            def on_end(report: ImageReport, result: Result[PathT] | None) -> None:
                if features_file is not None and result is not None:
                    features_file.add(report.id, report.label, result)
                output.end(report)
                advance()

            transfer = Transfer(reports, on_ready, on_end)
            summary = transfer.run(client, wire_path, choice, dtype, Transport[transport.name])
    if features_file is not None:
        with waiting(f"Writing {out}"):
            features_file.write(metadata)
    fallback_count = 0 if summary is None else summary.fallback_count
    seconds = time.perf_counter() - started_seconds
    output.summarize(seconds, metadata["config_sha256"], transport.value, fallback_count)
    if any(report.error is not None for report in reports):
        raise typer.Exit(ExitCode.FAILED)


@contextlib.contextmanager
def _discarding(out: Path | None) -> Iterator[None]:
    """Say on Ctrl-C that there will be no file of features: it has those of all images, or is not written."""
    try:
        yield
    except KeyboardInterrupt:
        if out is not None:
            error_console().print(printable(f"Interrupted: {file_label(out)} is not written"))
        raise


def file_label(file: Path) -> str:
    """Return a file's name as it was given; undecodable bytes of it are replaced."""
    return str(file).encode("utf-8", "replace").decode("utf-8")


def check_files(files: Iterable[Path]) -> None:
    """Raise UserFault that names every file which cannot be read, before anything is sent."""
    faults = [f"Cannot read {file_label(file)}: {cause}" for file in files if (cause := _unreadable(file))]
    if faults:
        raise UserFault("\n".join(faults))


def _unreadable(file: Path) -> str:
    """Say why a file cannot be read; empty where it can. A pipe is not opened: that can be done only once."""
    try:
        mode = file.stat().st_mode
    except OSError as error:
        return (error.strerror or str(error)).lower()
    except ValueError:
        return "it is no file name"
    if stat.S_ISDIR(mode):
        return "it is a folder"
    return "" if os.access(file, os.R_OK) else "permission denied"
