"""`monopath verify`: every byte of every path, held against an independent reference."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monopath import Client, DataType, Orientation, PreprocessingPath, ResampleKernel
from monopath.cli.connection import connected
from monopath.cli.connection_options import ServerChoice, with_server
from monopath.cli.faults import ExitCode, UserFault, needs_server
from monopath.cli.output import error_console
from monopath.cli.preprocess import PathName
from monopath.cli.progress import progress

if TYPE_CHECKING:
    from concurrent.futures import Future

    from monopath.cli.verify_runs import Group
    from monopath.cli.verify_streams import RunReport

__all__ = ["verify"]


@with_server
def verify(
    images: Annotated[
        list[Path] | None,
        typer.Argument(metavar="IMG", help="Image files. Without any: a built-in set of every mode and container."),
    ] = None,
    presets: Annotated[
        list[str] | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="A config that the server has. May be given many times.",
            show_default="one of each released config",
        ),
    ] = None,
    configs: Annotated[
        list[Path] | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The preprocessor_config.json of a checkpoint. May be given many times.",
            show_default=False,
        ),
    ] = None,
    kernels: Annotated[
        list[ResampleKernel] | None,
        typer.Option(
            "--kernel",
            help="The resize arithmetic: that of the Pillow release named, or torchvision's. May be given many times; "
            "a family takes those that it has.",
            show_default="all",
        ),
    ] = None,
    data_types: Annotated[
        list[DataType] | None,
        typer.Option("--dtype", help="Element type of the features. May be given many times.", show_default="all"),
    ] = None,
    paths: Annotated[
        list[PathName] | None,
        typer.Option(
            "--path",
            help="local: the reference's own features must come back unchanged. May be given many times.",
            show_default="all that the server has",
        ),
    ] = None,
    orientation: Annotated[Orientation, typer.Option(help="What to do with an EXIF orientation.")] = Orientation.KEEP,
    server: ServerChoice | None = None,
    interpreter: Annotated[
        bool,
        typer.Option(
            "--interpreter",
            help="Run deferred-cuda without a GPU, in Triton's interpreter, in a server of this command's own. Takes "
            "minutes: without IMG all paths take a selection of small images.",
        ),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Take N of the images, evenly spread.", show_default="all"),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object a line, for each stream, instead of a table.")
    ] = False,
) -> None:
    """Stream images through every path and hold every byte against an independent, slow reference.

    One stream for each path, config, resize arithmetic and element type. The built-in set is also streamed under limits
    so small that most of its images are resized; "/small" stands for them. Every image takes every setting, but images
    of the built-in set that a config does not resize take one resize arithmetic only, and on local and with
    --interpreter the set is crossed with the settings: every kind of image meets every setting with small limits, each
    time in another size.

    Exit code 0: every byte is equal, and what the reference cannot read was refused; 1: something differs; 2: wrong
    arguments, files or config; 3: no server answers.
    """
    # First, since it says in words where the server package is missing.
    from monopath.cli.verify_configs import checked_configs, distinct_presets, with_small_limits
    from monopath.cli.verify_images import evenly_spread, file_subjects, generated_subjects
    from monopath.cli.verify_output import write_json, write_table
    from monopath.cli.verify_runs import Scope, planned_groups

    files = evenly_spread(file_subjects(images or []), limit)
    wanted = None if paths is None else [PreprocessingPath[path.name] for path in dict.fromkeys(paths)]
    reports: list[RunReport] = []
    started_seconds = time.perf_counter()
    with _connected(server, wanted, interpreter=interpreter) as client:
        if presets is None:
            presets = [] if configs else distinct_presets()
        checked = checked_configs(client, dict.fromkeys(presets), dict.fromkeys(configs or []), orientation)
        if not images:
            checked = [each for config in checked for each in (config, with_small_limits(config))]
        scope = Scope(
            files if images else evenly_spread(generated_subjects(), limit),
            is_generated=not images,
            paths=_available(client, wanted),
            configs=checked,
            kernels=list(dict.fromkeys(kernels or ResampleKernel)),
            data_types=list(dict.fromkeys(data_types or DataType)),
            is_interpreted=interpreter,
        )
        groups = planned_groups(scope)
        for report in _verified(client, groups, as_json=json):
            reports.append(report)
            if json:
                write_json(report)
    if not json:
        image_count = len({subject.index for group in groups for subject in group.subjects})
        write_table(reports, image_count, time.perf_counter() - started_seconds)
    if any(report.differences for report in reports):
        raise typer.Exit(ExitCode.FAILED)


@contextlib.contextmanager
def _connected(
    server: ServerChoice | None, paths: Sequence[PreprocessingPath] | None, *, interpreter: bool
) -> Iterator[Client]:
    """Give a client of a running server, or of one of our own that has the paths."""
    if not interpreter:
        needs_cuda = paths is None or PreprocessingPath.DEFERRED_CUDA in paths
        with connected(server, needs_cuda=needs_cuda) as client:
            yield client
        return
    if server is not None:
        raise UserFault("Expected --server or --interpreter, got both")
    try:
        from monopath_server.embedded import embedded_server
        from monopath_server.settings import DeviceMode, Settings
    except ModuleNotFoundError as error:
        raise needs_server("`monopath verify --interpreter`", error) from None
    error_console().print("Triton's interpreter is slow: this takes minutes")
    with contextlib.ExitStack() as stack:
        try:
            own_address = stack.enter_context(embedded_server(Settings(cuda=DeviceMode.INTERPRETER)))
        except RuntimeError as error:
            raise UserFault(f"This installation cannot serve: {error}", ExitCode.FAILED) from None
        yield stack.enter_context(connected(ServerChoice(own_address)))


def _available(client: Client, wanted: Sequence[PreprocessingPath] | None) -> list[PreprocessingPath]:
    """Return the wanted paths, or all that the server has. Raises UserFault for a wanted one that it lacks."""
    reasons = {path.name: path.unavailable_reason for path in client.capabilities().paths if not path.available}
    if wanted is None:
        return [path for path in PreprocessingPath if path not in reasons]
    for path in wanted:
        if path in reasons:
            raise UserFault(f"--path: the server has no {PathName[path.name]}: {reasons[path]}")
    return list(wanted)


def _verified(client: Client, groups: Sequence[Group], *, as_json: bool) -> Iterator[RunReport]:
    """Yield a report for each stream. The references of the next group are computed while one is streamed."""
    from monopath.cli.verify_streams import verify_run
    from monopath_server.verification import Answer, ReferencePool

    total_count = sum(len(run.subjects) for group in groups for run in group.runs)
    max_image_pixels = client.capabilities().limits.max_image_pixels
    with progress("Verifying", total_count, as_json=as_json) as advance, ReferencePool(max_image_pixels) as pool:

        def begin(group: Group) -> dict[int, Future[Answer]]:
            config = group.config.reference(group.kernel)
            return {subject.index: pool.submit(subject.source, config) for subject in group.subjects}

        following = begin(groups[0]) if groups else {}
        for number, group in enumerate(groups):
            futures = following
            following = begin(groups[number + 1]) if number + 1 < len(groups) else {}
            answers = {index: future.result() for index, future in futures.items()}
            for run in group.runs:
                yield verify_run(client, run, answers, advance)
