"""A stopwatch for wall and processor time that can be paused."""

from __future__ import annotations

from bench.harness.process import Clocks
from bench.scale.footprint import Footprint, take_footprint

__all__ = ["Stopwatch"]


class Stopwatch:
    """Runs from its creation until ``read``; taking a footprint does not count."""

    def __init__(self) -> None:
        self._begun = Clocks.read()

    def take_footprint(self) -> Footprint:
        """Take a footprint while the watch is paused."""
        paused = Clocks.read()
        footprint = take_footprint()
        pause = Clocks.read() - paused
        self._begun = Clocks(self._begun.wall + pause.wall, self._begun.cpu + pause.cpu)
        return footprint

    def read(self) -> Clocks:
        """Return the time so far."""
        return Clocks.read() - self._begun
