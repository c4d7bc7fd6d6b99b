"""`monopath preview`: a picture of what the model sees, made from the rows that a path returned."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from monopath import Client, DataType, Orientation, PreprocessingPath, Ready, ResampleKernel
from monopath.cli.connection import connected
from monopath.cli.connection_options import ServerChoice, with_server
from monopath.cli.faults import ExitCode, needs_server
from monopath.cli.output import error_console, out_console, printable
from monopath.cli.preprocess import PathName, check_files, file_label
from monopath.cli.preview_views import View, chosen_views
from monopath.cli.progress import progress
from monopath_server import __version__

if TYPE_CHECKING:
    from monopath.cli.preview_streams import ImageFiles, Sight

__all__ = ["preview"]

_ValueT = TypeVar("_ValueT")


@with_server
def preview(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE...", help="Image files.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE.png",
            help="The picture. Eight images have room on one; more of them take FILE-2.png and so on.",
        ),
    ] = Path("preview.png"),
    presets: Annotated[
        list[str] | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="A config that the server has. Twice: side by side, with the difference.",
            show_default="kimi-k2.5",
        ),
    ] = None,
    configs: Annotated[
        list[Path] | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="The preprocessor_config.json of a checkpoint, as a preset is given.",
            show_default=False,
        ),
    ] = None,
    paths: Annotated[
        list[PathName] | None,
        typer.Option(
            "--path",
            help="Who turns pixels into features. Twice: side by side, with the difference.",
            show_default="deferred-cpu",
        ),
    ] = None,
    kernels: Annotated[
        list[ResampleKernel] | None,
        typer.Option(
            "--resample-kernel",
            help="The resize arithmetic. Twice: side by side, with the difference.",
            show_default="the config's own",
        ),
    ] = None,
    dtype: Annotated[
        DataType,
        typer.Option(
            help="Element type of the features. Elements of a float type are traced back to the one pixel value that "
            "has them."
        ),
    ] = DataType.UINT8,
    orientation: Annotated[
        Orientation | None,
        typer.Option(help="What to do with an EXIF orientation.", show_default="the config's own"),
    ] = None,
    server: ServerChoice | None = None,
) -> None:
    """Draw what a model's encoder reads of images: resized, upon its background, padded, in patches and windows.

    The picture is put together again from the rows that come back over a stream; nothing is computed a second time.
    Beside it stand the file, a magnified detail with the numbers of the rows, sizes, grid, tokens and the order of the
    resize; or, for two configs, paths or resize arithmetics, both pictures and their difference, amplified.

    Exit code 0: drawn; 1: at least one image failed, and its reason is drawn; 2: wrong arguments, or the server refused
    the config; 3: no server answers, or it was lost; 130: Ctrl-C, and full pictures stay. Needs monopath[server].
    """
    try:
        from monopath.cli.preview_blocks import make_block
        from monopath.cli.preview_files import PictureFiles
        from monopath.cli.preview_page import box_px
        from monopath.cli.preview_streams import ImageFiles, Unseen
    except ModuleNotFoundError as error:
        raise needs_server("`monopath preview`", error) from None
    check_files(images)
    views = chosen_views(
        [PreprocessingPath[path.name] for path in _once(paths or [PathName.DEFERRED_CPU])],
        _once(presets),
        _once(configs),
        _once(kernels),
        orientation,
    )
    pictures = PictureFiles(out, f"monopath {__version__}: put together from the rows of {dtype} that came back")
    labels = [file_label(image) for image in images]
    files = ImageFiles(images, labels)
    largest_px = box_px(len(images))
    failures: list[str] = []
    differences: list[str] = []
    failed_count = 0
    with (
        connected(server, needs_cuda=any(view.path is PreprocessingPath.DEFERRED_CUDA for view in views)) as client,
        progress("Drawing", len(images)) as advance,
        _streamed(client, views, dtype, files) as streamed,
    ):
        for index, sights in enumerate(streamed):
            content = files.content(index)
            block = make_block(f"{index + 1}. {labels[index]}", content, views, dtype, sights, largest_px)
            files.drop(index)
            pictures.add(block)
            unseen = list(dict.fromkeys(sight for sight in sights if isinstance(sight, Unseen)))
            failed_count += bool(unseen)
            failures += [f"{labels[index]}: {sight.reason}: {sight.message}" for sight in unseen]
            differences += [f"{labels[index]}: {found.words}" for found in block.differences]
            advance()
        pictures.write()
    for failure in failures:
        error_console().print(printable(failure, "red"))
    for difference in differences:
        out_console().print(printable(difference), soft_wrap=True)
    for path, (width_px, height_px) in pictures.written:
        out_console().print(printable(f"{file_label(path)} ({width_px}x{height_px} px)"), soft_wrap=True)
    if failed_count:
        raise typer.Exit(ExitCode.FAILED)


@contextlib.contextmanager
def _streamed(
    client: Client, views: Sequence[View], data_type: DataType, files: ImageFiles
) -> Iterator[Iterator[tuple[Sight, ...]]]:
    """Give what became of each image in each view. All streams are ended on every way out."""
    from monopath.cli.preview_streams import sights

    with contextlib.ExitStack() as stack:
        yield zip(
            *(
                stack.enter_context(contextlib.closing(sights(client, view, data_type, files, _write_warnings)))
                for view in views
            ),
            strict=True,
        )


def _write_warnings(ready: Ready) -> None:
    for warning in ready.warnings:
        error_console().print(f"warning: {warning.field}: {warning.description}")


def _once(values: Sequence[_ValueT] | None) -> list[_ValueT]:
    return list(dict.fromkeys(values or ()))
