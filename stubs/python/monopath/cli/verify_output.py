"""Writes what `monopath verify` found: a table and the first differences, or a JSON object for each stream."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from monopath import PreprocessingPath, ResampleKernel
from monopath.cli.output import bytes_text, new_table, out_console, printable, write_json_line
from monopath.cli.verify_runs import Run
from monopath.cli.verify_streams import RunReport

__all__ = ["path_word", "write_json", "write_table"]

_MAX_SHOWN_DIFFERENCES = 20


def path_word(path: PreprocessingPath) -> str:
    """Write a path as the command line does."""
    return path.lower().replace("_", "-")


def write_json(report: RunReport) -> None:
    """Write one stream as a JSON object on a line."""
    setting = report.run.setting
    write_json_line(
        {
            "path": report.run.path,
            "config": setting.config.name,
            "config_sha256": report.config_sha256,
            "resample_kernel": setting.kernel,
            "data_type": setting.data_type,
            "image_count": len(report.run.subjects),
            "refused_count": report.refused_count,
            "row_count": report.row_count,
            "size_bytes": report.size_bytes,
            "differing_bytes": report.differing_bytes,
            "differences": [difference.as_json() for difference in report.differences],
        }
    )


def write_table(reports: Sequence[RunReport], image_count: int, seconds: float) -> None:
    """Write a row for each path, config and resize arithmetic, the first differences, and what it all came to."""
    console = out_console()
    columns = ["path", "config", "pillow", "results", "rows", "bytes", "differ"]
    if any(report.refused_count for report in reports):
        columns.append("refused")
    table = new_table(*columns, name_column="config", left=("path", "pillow"))
    for (path, config, kernel), rows in _by_row(reports).items():
        differing_bytes = sum(report.differing_bytes for report in rows)
        cells: list[str | Text] = [
            path_word(path),
            printable(config),
            _pillow_text(kernel),
            str(sum(len(report.run.subjects) for report in rows)),
            str(sum(report.row_count for report in rows)),
            bytes_text(sum(report.size_bytes for report in rows)),
            printable(str(differing_bytes), "red" if differing_bytes else ""),
            str(sum(report.refused_count for report in rows)),
        ]
        table.add_row(*cells[: len(columns)])
    console.print(table)
    _write_differences(reports)
    console.print(f"\n{_total(reports, image_count)} ({seconds:.0f} s)", soft_wrap=True)


def _by_row(
    reports: Sequence[RunReport],
) -> dict[tuple[PreprocessingPath, str, ResampleKernel], list[RunReport]]:
    rows: dict[tuple[PreprocessingPath, str, ResampleKernel], list[RunReport]] = {}
    for report in sorted(reports, key=lambda report: list(PreprocessingPath).index(report.run.path)):
        setting = report.run.setting
        rows.setdefault((report.run.path, setting.config.name, setting.kernel), []).append(report)
    return rows


def _write_differences(reports: Sequence[RunReport]) -> None:
    console = out_console()
    found = [(report.run, difference) for report in reports for difference in report.differences]
    if found:
        console.print()
    for run, difference in found[:_MAX_SHOWN_DIFFERENCES]:
        console.print(printable(f"{_run_text(run)}: {difference}", "red"), soft_wrap=True)
    if len(found) > _MAX_SHOWN_DIFFERENCES:
        console.print(f"and {len(found) - _MAX_SHOWN_DIFFERENCES} more results that differ", style="red")


def _run_text(run: Run) -> str:
    setting = run.setting
    return f"{path_word(run.path)}, {setting.config.name}, {setting.kernel}, {setting.data_type}"


def _total(reports: Sequence[RunReport], image_count: int) -> str:
    comparison_count = sum(len(report.run.subjects) for report in reports)
    difference_count = sum(len(report.differences) for report in reports)
    differing_bytes = sum(report.differing_bytes for report in reports)
    compared = bytes_text(sum(report.size_bytes for report in reports))
    images = "1 image" if image_count == 1 else f"{image_count} images"
    where = f" in {difference_count} results" if difference_count else ""
    return f"{images}, {comparison_count} comparisons of {compared}: {differing_bytes} differing bytes{where}"


def _pillow_text(kernel: ResampleKernel) -> str:
    return kernel.removeprefix("pillow_").replace("_", ".")
