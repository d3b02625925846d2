"""The imports of a process before its first record, which take most of the time of a start."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flinknet.cluster.launch.registry import LAUNCHERS

OPTIONAL = ["cryptography", "matplotlib", "numpy", "pandas", "pyarrow", "pyspark", "rocksdict"]


@pytest.mark.parametrize(
    ("module", "others"),
    [
        ("flinknet.cluster.coordinator.__main__", ["flinknet.cluster.worker.worker"]),
        ("flinknet.cluster.worker.__main__", ["flinknet.cluster.coordinator.serving"]),
    ],
)
def test_a_process_of_a_cluster_imports_what_it_needs(module: str, others: list[str]) -> None:
    unneeded = {*others, *OPTIONAL, "flinknet.cluster.launch", "rich", "typer"}
    program = f"import sys, {module}; print(*({unneeded} & sys.modules.keys()))"
    said = subprocess.check_output([sys.executable, "-P", "-c", program], text=True)
    assert said.split() == []


def test_a_program_that_runs_jobs_imports_no_server() -> None:
    launchers = {place.partition(":")[0] for place in LAUNCHERS.values()}
    servers = {"aiohttp", "prometheus_client", "uvloop", "flinknet.runtime.subtask"}
    unneeded = {*OPTIONAL, *servers, *launchers}
    program = f"import sys, flinknet.cli.run; print(*({unneeded} & sys.modules.keys()))"
    said = subprocess.check_output([sys.executable, "-P", "-c", program], text=True)
    assert said.split() == []
