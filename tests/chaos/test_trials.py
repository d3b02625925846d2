"""Jobs beside random faults are exact, or fail within the stated time with the fault as the cause.

The output of a job is the whole new result or the whole old one. ``make chaos ARGS="--seed 7"``
repeats a run, which prints its seed and a table.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from flinknet.cluster import LocalCluster
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.errors import FlinknetError
from tests.chaos.faults import FAULTS, Effect, Fault, can_reset
from tests.chaos.jobs import answer, read_output, sums_of

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(3600)]

RECORDS = 150_000
JOBS = 2
"""Jobs side by side, each with a slot on every worker."""

CONFIG = FlinknetConfig(
    network=NetworkConfig(network_memory_bytes=8 * 2**20, segment_bytes=4096),
    cluster=ClusterConfig(
        workers=2,
        slots_per_worker=JOBS,
        heartbeat_interval_ms=250.0,
        heartbeat_timeout_ms=3_000.0,
        coordinator_timeout_ms=3_000.0,
        cause_grace_ms=500.0,
        cancel_timeout_ms=2_000.0,
        stop_timeout_ms=2_000.0,
    ),
)
NOTICED_WITHIN_S = 3.0 + 0.5 + 2.0
"""heartbeat_timeout_ms, cause_grace_ms and cancel_timeout_ms: a job has failed after these."""

MARGIN_S = 10.0
"""Extra time, because the trials themselves load the machine."""


class Trials:
    """A cluster, renewed after a fault that spoils it, and the outputs of its jobs."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._stack = AsyncExitStack()
        self._cluster: LocalCluster | None = None
        self._generation = 0
        self._last: dict[int, list[tuple[int, ...]]] = {}
        self.table: Counter[tuple[str, str]] = Counter()
        self.failures: list[str] = []

    async def run(self, fault: Fault) -> None:
        """Run one trial."""
        if self._cluster is None:
            cluster = LocalCluster(CONFIG, on_output=lambda process, line: None)
            self._cluster = await self._stack.enter_async_context(cluster)
        self._generation += 1
        cluster, chance = self._cluster, self._chance
        jobs = [asyncio.create_task(self._execute(cluster, number)) for number in range(JOBS)]
        await asyncio.sleep(chance.uniform(0.0, 1.2))
        effect = await fault.apply(cluster, chance)
        began = time.monotonic()
        try:
            limit_s = NOTICED_WITHIN_S + MARGIN_S
            _, hanging = await asyncio.wait(jobs, timeout=limit_s)
            if not effect.explains and hanging:  # unaffected jobs get more time
                _, hanging = await asyncio.wait(jobs, timeout=60.0)
            took_s = time.monotonic() - began
            for number, job in enumerate(jobs):
                outcome = self._judge(number, job, effect)
                self.table[fault.name, outcome] += 1
                if outcome not in ("exact", "named"):
                    self.failures.append(f"{effect.what}, {took_s:.1f} s: {outcome}")
        finally:
            effect.undo.close()
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
        if effect.spoils or hanging:
            await self.close()

    async def close(self) -> None:
        """Stop the cluster."""
        self._cluster = None
        await self._stack.aclose()

    def _path(self, number: int) -> Path:
        return self._folder / f"job{number}"

    async def _execute(self, cluster: LocalCluster, number: int) -> list[tuple[int, ...]]:
        graph = sums_of(RECORDS, self._path(number), self._generation)
        result = await cluster.execute(graph)
        return sorted(result.collected["sums"])

    def _judge(self, number: int, job: asyncio.Task[list[tuple[int, ...]]], effect: Effect) -> str:
        expected = answer(RECORDS, self._generation)
        output = read_output(self._path(number))
        before = self._last.get(number, [])
        self._last[number] = output
        if not job.done():
            return "hangs"
        error = job.exception()
        if error is None:
            if job.result() != expected:
                return "wrong records"
            return "exact" if output == expected else "wrong output"
        # If the coordinator dies between the commit and its answer, the job fails with its output
        # whole.
        if output not in (before, expected):
            return "half an output"
        if not isinstance(error, FlinknetError):
            return f"unnamed: {error!r}"
        if effect.explains and re.search(effect.explains, str(error), re.DOTALL):
            return "named"
        return f"another cause: {str(error).splitlines()[0][:300]}"


async def test_every_job_is_exact_or_fails_with_a_named_cause_in_time(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("--seed")
    count = request.config.getoption("--trials")
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    print(f"\nchaos: seed {seed}, {count} trials")
    chance = random.Random(seed)
    faults = [fault for fault in FAULTS if fault.name != "reset" or can_reset()]
    if len(faults) < len(FAULTS):
        print("chaos: no resets, because this machine lets no process take another one's sockets")
    drawn = [faults[number % len(faults)] for number in range(count)]
    chance.shuffle(drawn)
    trials = Trials(tmp_path, chance)
    began = time.monotonic()
    try:
        for fault in drawn:
            await trials.run(fault)
    finally:
        await trials.close()
        _print_table(trials.table, Counter(fault.name for fault in drawn), time.monotonic() - began)
    assert not trials.failures, "\n".join(trials.failures)


def _print_table(table: Counter[tuple[str, str]], drawn: Counter[str], seconds: float) -> None:
    print(f"{'fault':10} {'trials':>6} {'exact':>6} {'named':>6} {'else':>6}   in {seconds:.0f} s")
    for name, count in sorted(drawn.items()):
        exact, named = table[name, "exact"], table[name, "named"]
        other = sum(times for (fault, _), times in table.items() if fault == name) - exact - named
        print(f"{name:10} {count:6} {exact:6} {named:6} {other:6}")
