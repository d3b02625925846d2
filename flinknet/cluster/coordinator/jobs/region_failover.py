"""Tracks the pipelined regions of a job that have failed while the others go on.

Theory of operation
-------------------
No record passes between regions (``pipelined_region.py``). A region that restarts from a checkpoint
is therefore consistent with regions that have gone on since. A failure affects the regions of the
failed subtasks. If other regions remain, the failed ones are *given up*: their subtasks must be
released before ``deadline``, and then they may be redeployed. A failure of all regions that are not
given up yet is a failure of the whole job. With the strategy "full"
(``cluster.failover_strategy``), every failure concerns the whole job. A region that has finished is
not affected by any failure.

``take_failure`` reports each failure once, to the dispatcher, which decides whether and when the
regions are restarted. Flink: RestartPipelinedRegionFailoverStrategy. Flink also restarts the
regions that consume the results of a failed one. Here a job with such regions has no failover by
region at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.coordinator.jobs.pipelined_region import PipelinedRegion

__all__ = ["RegionFailover", "RegionFailure"]


@dataclass(frozen=True, slots=True)
class RegionFailure:
    """Regions that failed together; ``at`` is in seconds of the coordinator's clock."""

    regions: frozenset[str]
    cause: FailureCause
    at: float


class RegionFailover:
    """The regions of one attempt that were given up."""

    def __init__(self, regions: Sequence[PipelinedRegion], *, enabled: bool) -> None:
        # A region that consumes the results of a failed one would have to restart with it.
        self.enabled = enabled and not any(region.consumes for region in regions)
        """Whether some regions may fail while others go on."""
        self.given_up: set[str] = set()
        """Names of the regions to be redeployed."""
        self.deadline: float | None = None
        """Time by which all of them must be released."""
        self._regions = {region.name: region for region in regions}
        self._region_of = {
            subtask: region.name for region in regions for subtask in region.subtasks
        }
        self._unreleased: set[tuple[int, int]] = set()
        """Subtasks that were given up and are still to be released."""
        self._last: RegionFailure | None = None
        self._untold: list[RegionFailure] = []
        """Failures that ``take_failure`` has not returned yet."""

    @property
    def cause(self) -> FailureCause:
        """The cause of the last failure of regions."""
        assert self._last is not None, "some were"
        return self._last.cause

    @property
    def is_released(self) -> bool:
        """Whether all subtasks of the given-up regions have been released."""
        return not self._unreleased

    def regions_of(self, subtasks: Iterable[tuple[int, int]]) -> frozenset[str]:
        """Return the names of the subtasks' regions, without those that were given up."""
        return frozenset(self._region_of[subtask] for subtask in subtasks) - self.given_up

    def subtasks_of(self, regions: Iterable[str]) -> list[tuple[int, int]]:
        """Return the subtasks of regions, sorted."""
        return sorted(one for name in regions for one in self._regions[name].subtasks)

    def is_given_up(self, subtask: tuple[int, int]) -> bool:
        """Return whether the subtask's region is to be redeployed."""
        return self._region_of[subtask] in self.given_up

    def has_let_go(self, subtask: tuple[int, int]) -> bool:
        """Return whether the subtask was given up and is released."""
        return self.is_given_up(subtask) and subtask not in self._unreleased

    def concerns_some(self, regions: frozenset[str]) -> bool:
        """Return whether a failure of these regions leaves others that need not be restarted."""
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
        """Give up failed regions; the subtasks in ``held`` are still to be released."""
        self.given_up |= regions
        self._unreleased.update(held)
        if self.deadline is None and self._unreleased:
            self.deadline = deadline
        self._last = RegionFailure(regions, cause, now)
        self._untold.append(self._last)

    def take_failure(self) -> RegionFailure | None:
        """Return the next failure that has not been reported yet, or None."""
        return self._untold.pop(0) if self._untold else None

    def released(self, subtasks: Iterable[tuple[int, int]]) -> None:
        """Note that workers have released these subtasks, whether given up or not."""
        self._unreleased.difference_update(subtasks)
        if not self._unreleased:
            self.deadline = None

    def redeployed(self, regions: frozenset[str]) -> None:
        """Note that the regions start again."""
        assert self.is_released, "what runs is not begun again"
        assert regions <= self.given_up, "nor what goes on"
        self.given_up -= regions

    def end(self) -> None:
        """Stop failover by region, because the attempt ends as a whole."""
        self.enabled = False
        self.given_up.clear()
        self._unreleased.clear()
        self.deadline = None
