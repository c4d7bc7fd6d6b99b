"""The JSON of a run: flat maps of ratios and latencies, and behind them every figure with its spread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from monopath_server.bench.latency import latencies_ms
from monopath_server.bench.pictures import picture, size_name
from monopath_server.bench.scope import Scope
from monopath_server.bench.sheet import Comparison, Figure, Sheet

__all__ = ["FORMAT", "report"]

FORMAT = "monopath.bench.v1"
_TAIL_COUNT = 100
"""Samples from which on a 99th percentile says something."""


def report(
    scope: Scope, sheet: Sheet, machine: Mapping[str, object], *, seconds: float, stopped_by: str | None
) -> dict[str, object]:
    """Return what was measured. `stopped_by` says why a run is not whole; None for one that is."""
    comparisons = [*sheet.ratios, *sheet.differences]
    return {
        "format": FORMAT,
        "is_partial": stopped_by is not None,
        "stopped_by": stopped_by,
        "seconds": round(seconds, 1),
        "machine": dict(machine),
        "scope": _scope(scope),
        "ratios": {ratio.name: ratio.value for ratio in sheet.ratios},
        "latency_ms": latencies_ms(sheet),
        "bars": [_bar(comparison) for comparison in comparisons if comparison.bar is not None],
        "growth": _growth(scope, sheet),
        "comparisons": {comparison.name: _comparison(comparison) for comparison in comparisons},
        "figures": {name: _figure(figure) for name, figure in sheet.figures.items()},
        "skipped": [{"what": skipped.what, "reason": skipped.reason} for skipped in sheet.skipped],
    }


def _scope(scope: Scope) -> dict[str, object]:
    return {
        "is_quick": scope.pace.is_quick,
        "sections": [section.value for section in scope.sections],
        "presets": list(scope.presets),
        "served_preset": scope.served_preset,
        "element_type": scope.element_type.value,
        "images": [
            {
                "name": size_name(size),
                "width_px": size.width_px,
                "height_px": size.height_px,
                "file_bytes": len(picture(size).data),
            }
            for size in scope.sizes
        ],
    }


def _figure(figure: Figure) -> dict[str, object]:
    described: dict[str, object] = {
        "unit": figure.unit,
        "median": figure.median,
        "min": min(figure.values),
        "max": max(figure.values),
        "count": len(figure.values),
    }
    if len(figure.values) >= _TAIL_COUNT:
        described["p99"] = figure.p99
    return described


def _comparison(comparison: Comparison) -> dict[str, object]:
    return {
        "first": comparison.first,
        "second": comparison.second,
        "value": comparison.value,
        "min": comparison.smallest,
        "max": comparison.largest,
    }


def _bar(comparison: Comparison) -> dict[str, object]:
    if comparison.bar is None:
        raise ValueError(f"Expected a comparison with a bar, got {comparison.name}")
    return {
        "name": comparison.name,
        "bar": str(comparison.bar),
        "value": comparison.value,
        "is_met": comparison.bar.is_met(comparison.value),
    }


def _growth(scope: Scope, sheet: Sheet) -> dict[str, object]:
    growth: dict[str, object] = {}
    for preset in scope.presets:
        points = _times_against_pixels(scope, sheet, preset)
        if len(points) > 1:
            nanoseconds = {name: 1e6 * spent_ms / pixels for name, pixels, spent_ms in points}
            growth[f"whole_ns_per_pixel.{preset}"] = nanoseconds
            # 1 is linear: twice the pixels take twice as long.
            logarithms = [(math.log(pixels), math.log(spent_ms)) for _, pixels, spent_ms in points]
            growth[f"whole_time_exponent.{preset}"] = slope(logarithms)
    for name, curve in sheet.curves.items():
        if len(curve) > 1:
            growth[name] = [list(point) for point in curve]
            # The first half fills pools and caches, which are bounded.
            growth[f"{name}.slope_of_second_half"] = slope(curve[len(curve) // 2 :])
    return growth


def _times_against_pixels(scope: Scope, sheet: Sheet, preset: str) -> list[tuple[str, int, float]]:
    points = []
    for size in scope.sizes:
        figure = sheet.figure(f"cpu.one_thread.whole.{size_name(size)}.{preset}")
        if figure is not None:
            points.append((size_name(size), size.width_px * size.height_px, figure.median))
    return points


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the straight line nearest to the points; 0 where they all have one x."""
    x_mean = sum(x for x, _ in points) / len(points)
    y_mean = sum(y for _, y in points) / len(points)
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    return sum((x - x_mean) * (y - y_mean) for x, y in points) / spread if spread else 0.0
