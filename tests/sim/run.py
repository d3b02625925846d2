"""Run ``python -m tests.sim.run JOB DIRECTORY SEED``: one simulation, reported on standard output.

It needs a process of its own, because the machine is replaced before the package is imported.
"""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

from tests.sim import machine
from tests.sim.loop import SimLoop

sys.modules["flinknet.machine"] = machine


async def simulate(job: str, directory: str) -> dict[str, Any]:
    """Run a job to its end, and return its result with the trace."""
    from flinknet.cluster.control.submission import Submission
    from flinknet.config import CheckpointingConfig, ClusterConfig
    from tests.sim import jobs
    from tests.sim.cluster import running_cluster

    graph = jobs.sums(job)
    machine.forbid_the_real_machine()
    config = ClusterConfig(workers=2, slots_per_worker=1, heartbeat_interval_ms=500.0)
    async with running_cluster(config, CheckpointingConfig(directory=directory)) as cluster:
        record = cluster.coordinator.submit(Submission.of_graph(graph))
        await cluster.coordinator.wait_for_end(record, 600.0)
        told = {
            "state": record.state.value,
            "attempts": len(record.attempts),
            "collected": cluster.collected(record)["Collect"],
            "ended_at": record.ended_at,
        }
    return {**told, "trace": cluster.trace.lines}


def main() -> None:
    """Run the simulation that the arguments name, and print its result as JSON."""
    job, directory, seed = sys.argv[1:]
    gc.disable()  # the time of a finalizer must not depend on earlier allocations
    loop = SimLoop()
    machine.begin(loop, int(seed))
    try:
        told = loop.run_until_complete(simulate(job, directory))
    finally:
        # The job may have caught the error and finished.
        if machine.OutsideError.first is not None:
            raise machine.OutsideError.first
        loop.close()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
