"""``flinknet savepoint``, ``stop``, ``checkpoints`` and ``run --from-checkpoint`` for a user."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.free_port import free_port
from tests.integration.cluster_runs import PATIENCE_S, environment, flinknet_run, start_run

KEYS = 101
RECORDS = 60_000

SUMS = f"""
import sys
from flinknet.datastream import (
    CollectSink, GeneratorSource, RateLimitedSource, StreamExecutionEnvironment
)

sources, sums, rate = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
environment = StreamExecutionEnvironment().set_max_parallelism(16)
environment.enable_checkpointing(200)
environment.get_checkpoint_config().enable_unaligned_checkpoints(sys.argv[4] == "unaligned")
numbers = GeneratorSource(lambda number: (number % {KEYS}, 1, number), {RECORDS})
stream = environment.from_source(RateLimitedSource(numbers, rate)).uid("numbers")
totals = stream.set_parallelism(sources).key_by(lambda record: record[0]).reduce(
    lambda one, other: (one[0], one[1] + other[1], one[2] + other[2]), emit="end_of_input"
)
totals.set_parallelism(sums).uid("sums")
totals.sink_to(CollectSink()).set_parallelism(sums).name("out").uid("out")
collected = sorted(environment.execute("sums").collected["out"])
expected = [
    (key, len(range(key, {RECORDS}, {KEYS})), sum(range(key, {RECORDS}, {KEYS})))
    for key in range({KEYS})
]
counted = sum(count for _, count, _ in collected)
print("all of them" if collected == expected else f"{{counted}} of them")
"""
SLOWLY, AT_ONCE = "2000", "1e9"


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set one address and one secret for the cluster and its clients."""
    monkeypatch.setenv("FLINKNET_CLUSTER_COORDINATOR_PORT", str(free_port()))
    monkeypatch.setenv("FLINKNET_CLUSTER_TOKEN", secrets.token_hex(16))
    monkeypatch.setenv("FLINKNET_CHECKPOINTING_DIRECTORY", str(tmp_path / "checkpoints"))
    (tmp_path / "sums.py").write_text(SUMS)


def flinknet(*arguments: str) -> str:
    """Run a command that must succeed; return its output."""
    run = subprocess.run(
        [sys.executable, "-m", "flinknet.cli", *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def sums_from(place: str, sources: int, sums: int, alignment: str, cwd: Path) -> str:
    """Run the job from a checkpoint to its end; return the output."""
    run = flinknet_run(
        *("sums.py", "--from-checkpoint", place, "--workers=2", "--"),
        *(str(sources), str(sums), AT_ONCE, alignment),
        cwd=cwd,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def said(output: str) -> str:
    """Return the line of the output that the job file has printed."""
    (line,) = [line for line in output.splitlines() if line.endswith(" of them")]
    return line


def test_a_job_is_saved_stopped_and_continued_with_more_and_with_fewer_subtasks(
    tmp_path: Path,
) -> None:
    """N10: a job with unaligned checkpoints continues from its savepoints with either kind."""
    savepoints = str(tmp_path / "savepoints")
    arguments = ("sums.py", "--workers=2", "--", "2", "2", SLOWLY, "unaligned")
    with start_run(*arguments, cwd=tmp_path) as run:
        run.wait_until_running()
        first = json.loads(flinknet("savepoint", "sums", savepoints, "--json"))["location"]
        assert run.is_running, "the job goes on"
        second = flinknet("stop", "sums", "--savepoint-path", savepoints).strip()
        status, output = run.wait()
    assert status == 0, output
    assert said(output) == "0 of them", "nothing is emitted behind such a savepoint"

    listed = json.loads(flinknet("checkpoints", "list", savepoints, "--json"))
    assert {one["kind"] for one in listed} == {"savepoint", "savepoint_suspend"}
    for place in (first, second):
        assert "sums" in flinknet("checkpoints", "show", place)
        flinknet("checkpoints", "verify", place)

    assert said(sums_from(first, 3, 1, "aligned", tmp_path)) == "all of them"
    assert said(sums_from(second, 1, 3, "unaligned", tmp_path)) == "all of them"
    left = [path.name for path in (tmp_path / "checkpoints").glob("*/checkpoint-*")]
    assert left == [], "jobs that have finished leave none"


def test_a_job_that_is_drained_says_all_that_it_has(tmp_path: Path) -> None:
    arguments = ("sums.py", "--workers=1", "--slots=2", "--", "2", "2", SLOWLY, "aligned")
    with start_run(*arguments, cwd=tmp_path) as run:
        run.wait_until_running()
        place = flinknet("stop", "sums", "--drain", "--savepoint-path", str(tmp_path / "drained"))
        status, output = run.wait()
    assert status == 0, output
    assert 0 < int(said(output).split()[0]) < RECORDS
    flinknet("checkpoints", "verify", place.strip())


def test_a_job_is_cancelled_by_its_name(tmp_path: Path) -> None:
    arguments = ("sums.py", "--workers=1", "--slots=2", "--", "2", "2", SLOWLY, "aligned")
    with start_run(*arguments, cwd=tmp_path) as run:
        run.wait_until_running()
        assert flinknet("cancel", "sums").strip() == "CANCELED"
        status, output = run.wait()
    assert status == 1
    assert 'job "sums" was cancelled' in output
