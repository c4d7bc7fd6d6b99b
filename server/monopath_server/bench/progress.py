"""How far a run is, by the time that its parts are planned to take."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Meter"]


class Meter:
    """Adds up the planned seconds of what is done. `show` is called with what is measured and the part done, 0 to 1."""

    def __init__(self, show: Callable[[str, float], None]) -> None:
        self._show = show
        self._planned_seconds = 1.0
        self._done_seconds = 0.0
        self._current_seconds = 0.0
        self._title = ""

    def plan(self, seconds: float) -> None:
        """Say how long all is planned to take."""
        self._planned_seconds = max(seconds, 1e-9)

    def begin(self, title: str, planned_seconds: float) -> None:
        """The part before is done, the next one begins."""
        self._done_seconds += self._current_seconds
        self._current_seconds = planned_seconds
        self._title = title
        self.move(0.0)

    def move(self, part: float) -> None:
        """Say how much of the present part is done, 0 to 1."""
        done = (self._done_seconds + self._current_seconds * min(part, 1.0)) / self._planned_seconds
        self._show(self._title, min(done, 1.0))
