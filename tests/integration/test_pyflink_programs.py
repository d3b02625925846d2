"""Programs like PyFlink's public examples run on a local cluster with changed imports.

They are written against PyFlink's API, and nothing but their import lines changes.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from pathlib import Path

import pytest

from flinknet.cluster import LocalCluster
from flinknet.cluster.control.job_result import JobResult
from flinknet.cluster.launch.job_control import JobControl
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream.executor import set_executor
from flinknet.graph.graph import JobGraph

PROGRAMS = Path(__file__).parents[1] / "pyflink" / "programs"
CONFIG = FlinknetConfig(
    network=NetworkConfig(network_memory_bytes=32 * 2**20, segment_bytes=4096),
    cluster=ClusterConfig(workers=2, slots_per_worker=2),
)

SUBTASK = re.compile(r"^\d+> ")
"""The subtask's number before a record of a print sink with several subtasks."""

PRINTED = {
    "async_requests": [
        '{"user_id": 0, "result": "positive"}',
        '{"user_id": 1, "result": "positive"}',
        '{"user_id": 2, "result": null}',
    ],
    "batch_input": [
        '(1, \'{"tel": 123, "country": "Germany"}\')',
        "('Germany', 123)",
        "('China', 167)",
        "(0, 10)",
    ],
    "broadcast_state": ["('rule', 'rule')", "('a', 'record')", "('b', 'record')"],
    "file_word_count": ["to 2", "be 2", "or 1", "not 1"],
    "partitioning": [
        *(f"('custom', {number % 2}, {number})" for number in range(4)),
        *(f"('global', 0, {number})" for number in range(4)),
        *(f"('broadcast', {subtask}, 3)" for subtask in range(2)),
        *(f"('{how}', {number})" for how in ("rebalance", "rescale") for number in range(4)),
    ],
    "rich_functions": [
        *("('average', 1, 4)", "('average', 1, 5)"),
        *(f"('total', 1, {total})" for total in (3, 8, 15, 19, 24)),
        *("('total', 2, 3)", "('new', 1, 3)", "('new', 1, 5)", "('new', 1, 7)"),
        *("('new', 1, 4)", "('new', 2, 3)"),
        *(f"('side', 1, {count})" for count in range(1, 7)),
        *("('side', 2, 1)", "('side', 3, 1)"),
        *(f"('join', 1, {left}, 'one')" for left in (3, 5, 7, 4, 5)),
    ],
    "state_access": [
        "('Alice', 3000, 130.5)",
        "('Alice', 5000, 130.5)",
        "('Bob', 6000, 31.25)",
        "('Bob', 11000, 31.25)",
    ],
    "windows": [
        *("('count', 'hi', 3)", "('count', 'hi', 11)", "('count', 'hi', 24)"),
        *("('session', 'hi', 1, 14, 5)", "('session', 'hi', 15, 20, 1)"),
        "('dynamic', 'hi', 1, 6, 3)",
        *("('dynamic', 'hi', 8, 30, 3)", "('sliding', 'hi', -5, 5, 3)"),
        *("('sliding', 'hi', 0, 10, 5)", "('sliding', 'hi', 5, 15, 2)"),
        *("('sliding', 'hi', 10, 20, 1)", "('sliding', 'hi', 15, 25, 1)"),
    ],
    "word_count": ["('to', 2)"],
}


def with_own_imports(program: str) -> str:
    """Replace the package in import lines: flinknet has modules with PyFlink's names."""
    return re.sub(r"^from pyflink\b", "from flinknet", program, flags=re.MULTILINE)


@pytest.mark.filterwarnings("ignore:job .* runs in mode BATCH")
async def test_programs_run_with_their_import_lines_changed() -> None:
    printed: list[str] = []
    loop = asyncio.get_running_loop()
    assert set(PRINTED) == {path.stem for path in PROGRAMS.glob("*.py")}
    async with LocalCluster(CONFIG, on_printed=printed.append) as cluster:

        def execute(graph: JobGraph, control: JobControl | None) -> JobResult:
            return asyncio.run_coroutine_threadsafe(cluster.execute(graph), loop).result()

        set_executor(execute)
        try:
            for name, expected in PRINTED.items():
                path = PROGRAMS / f"{name}.py"
                program = compile(with_own_imports(path.read_text()), path, "exec")
                await asyncio.to_thread(exec, program, {"__name__": f"program_{name}"})
                records = [SUBTASK.sub("", line) for line in printed]
                assert Counter(records) == Counter(expected), name
                printed.clear()
        finally:
            set_executor(None)
