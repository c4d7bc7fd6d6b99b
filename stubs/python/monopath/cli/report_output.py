"""Writes the reports of `monopath preprocess`, in the order of the arguments."""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from typing import Self

from monopath import CacheOutcome, ImagePlan, Transport
from monopath.cli.output import (
    FileName,
    digest_text,
    error_console,
    grid_text,
    milliseconds_text,
    new_table,
    out_console,
    printable,
    size_text,
    write_json_line,
)
from monopath.cli.reports import ImageReport

__all__ = ["ReportOutput", "plan_cells"]

_CACHE_WORDS: dict[str | None, str] = {CacheOutcome.HIT: "from the cache", CacheOutcome.JOINED: "made once for several"}


class ReportOutput:
    """A JSON object for each image as soon as it and all before it have ended, or a table of all at the end.

    Leaving the context writes what is left of the images that have ended, whatever happened.
    """

    def __init__(self, reports: list[ImageReport], *, as_json: bool) -> None:
        self._reports = reports
        self._as_json = as_json
        self._ended_ids: set[int] = set()
        self._written_count = 0

    def end(self, report: ImageReport) -> None:
        """An image's report is complete."""
        self._ended_ids.add(report.id)
        while self._as_json and self._written_count < len(self._reports):
            following = self._reports[self._written_count]
            if following.id not in self._ended_ids:
                break
            # Counted first: what is interrupted while a full pipe blocks must not be written twice.
            self._written_count += 1
            write_json_line(following.as_json())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        left = [report for report in self._reports[self._written_count :] if report.id in self._ended_ids]
        if self._as_json:
            for report in left:
                write_json_line(report.as_json())
        elif left:
            _write_table(left)
        missing_count = len(self._reports) - len(self._ended_ids)
        if exc_type is not None and self._ended_ids and missing_count:
            error_console().print(f"{missing_count} of {len(self._reports)} images have no result")

    def summarize(self, seconds: float, config_sha256: str, transport: str, fallback_count: int) -> None:
        """Write what it all came to, on a line or two. With JSON the lines say it themselves.

        `fallback_count` features came inline because the server had no shared memory left.
        """
        if self._as_json:
            return
        done = [report for report in self._reports if report.error is None]
        token_count = sum(report.plan.token_count for report in done if report.plan is not None)
        failed_count = len(self._reports) - len(done)
        path = self._reports[0].path
        failed = f", {failed_count} failed" if failed_count else ""
        out_console().print(
            f"\n{len(done)} done{failed}; {token_count} tokens in {seconds:.2f} s; {path}, config {config_sha256[:12]}",
            soft_wrap=True,
        )
        found = Counter(report.cache for report in done)
        notes = [
            *([f"over {transport}"] if transport != Transport.INLINE else []),
            *([f"{fallback_count} inline for lack of room"] if fallback_count else []),
            *(f"{found[outcome]} {words}" for outcome, words in _CACHE_WORDS.items() if found[outcome]),
        ]
        if notes:
            out_console().print(", ".join(notes), soft_wrap=True)


def plan_cells(plan: ImagePlan | None) -> tuple[str, str, str, str]:
    """Return original size, resized size, patch or tile grid, and token count as the cells of a table."""
    if plan is None:
        return ("", "", "", "")
    original, resized = plan.original_size, plan.resized_size
    return (
        size_text((original.width_px, original.height_px)),
        size_text((resized.width_px, resized.height_px)),
        grid_text(plan),
        str(plan.token_count),
    )


def _write_table(reports: list[ImageReport]) -> None:
    table = new_table(
        "#", "image", "size", "resized", "grid", "tokens", "ms", "sha256", name_column="image", left=("sha256",)
    )
    for report in reports:
        table.add_row(
            str(report.id),
            FileName(report.label),
            *plan_cells(report.plan),
            milliseconds_text(report.total_ms),
            digest_text(report.features_sha256) if report.error is None else printable("failed", "red"),
        )
    out_console().print(table)
    for report in reports:
        if report.error is not None:
            text = f"{report.label}: {report.error.reason}: {report.error.message}"
            error_console().print(printable(text, "red"))
