"""Which pipelined regions of a job have failed while the others go on.

Theory of operation
-------------------
No record passes between regions (``pipelined_region.py``), so that one which begins again from a
checkpoint is consistent with others that have gone on since. A failure concerns the regions with a
subtask that has failed. If there are others, these are *given up*: their subtasks are to be
released, by the time that ``deadline`` says, and then they may be redeployed. A failure of all
regions that are not given up yet is one of the whole job, and so is each if that is the strategy
(``cluster.failover_strategy``). A region that has finished is not concerned by any.

Each failure is told once, by ``take_failure``, to whom it is to decide whether and when the regions
are restarted. Flink: RestartPipelinedRegionFailoverStrategy, whose regions also take along those
that consume what they produce; here a job with such has none that are restarted alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.coordinator.jobs.pipelined_region import PipelinedRegion

__all__ = ["RegionFailover", "RegionFailure"]


@dataclass(frozen=True, slots=True)
class RegionFailure:
    """Some regions have failed together; ``at`` is the coordinator's clock, in seconds."""

    regions: frozenset[str]
    cause: FailureCause
    at: float


class RegionFailover:
    """The regions of one attempt that were given up."""

    def __init__(self, regions: Sequence[PipelinedRegion], *, enabled: bool) -> None:
        self.enabled = enabled and not any(region.consumes for region in regions)
        """Whether there is more than a failure of all."""
        self.given_up: set[str] = set()
        """Those that are to be redeployed, by name."""
        self.deadline: float | None = None
        """When all of them must be released at the latest."""
        self._regions = {region.name: region for region in regions}
        self._region_of = {
            subtask: region.name for region in regions for subtask in region.subtasks
        }
        self._unreleased: set[tuple[int, int]] = set()
        self._last: RegionFailure | None = None
        self._untold: list[RegionFailure] = []

    @property
    def cause(self) -> FailureCause:
        """Why the last ones were given up."""
        assert self._last is not None, "some were"
        return self._last.cause

    @property
    def is_released(self) -> bool:
        """Nothing runs any more of what was given up."""
        return not self._unreleased

    def regions_of(self, subtasks: Iterable[tuple[int, int]]) -> frozenset[str]:
        """The regions of subtasks, but those that were given up."""
        return frozenset(self._region_of[subtask] for subtask in subtasks) - self.given_up

    def subtasks_of(self, regions: Iterable[str]) -> list[tuple[int, int]]:
        """The subtasks of regions, in order."""
        return sorted(one for name in regions for one in self._regions[name].subtasks)

    def is_given_up(self, subtask: tuple[int, int]) -> bool:
        """Whether its region is to be redeployed."""
        return self._region_of[subtask] in self.given_up

    def has_let_go(self, subtask: tuple[int, int]) -> bool:
        """Whether it was given up, and is released."""
        return self.is_given_up(subtask) and subtask not in self._unreleased

    def concerns_some(self, regions: frozenset[str]) -> bool:
        """Whether a failure of these leaves others that need not be restarted."""
        is_all = len(regions) + len(self.given_up) == len(self._regions)
        return self.enabled and bool(regions) and not is_all

    def give_up(
        self,
        regions: frozenset[str],
        held: Iterable[tuple[int, int]],
        cause: FailureCause,
        now: float,
        deadline: float,
    ) -> None:
        """Regions have failed; of these subtasks it is to be told that they are released."""
        self.given_up |= regions
        self._unreleased.update(held)
        if self.deadline is None and self._unreleased:
            self.deadline = deadline
        self._last = RegionFailure(regions, cause, now)
        self._untold.append(self._last)

    def take_failure(self) -> RegionFailure | None:
        """The next failure of which nobody has been told."""
        return self._untold.pop(0) if self._untold else None

    def released(self, subtasks: Iterable[tuple[int, int]]) -> None:
        """Nothing runs any more of some subtasks, whether they were given up or not."""
        self._unreleased.difference_update(subtasks)
        if not self._unreleased:
            self.deadline = None

    def redeployed(self, regions: frozenset[str]) -> None:
        """Regions begin again."""
        assert self.is_released, "what runs is not begun again"
        assert regions <= self.given_up, "nor what goes on"
        self.given_up -= regions

    def end(self) -> None:
        """The attempt ends as a whole."""
        self.enabled = False
        self.given_up.clear()
        self._unreleased.clear()
        self.deadline = None
