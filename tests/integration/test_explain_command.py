"""``flinknet explain``: its output, its refusals, and that it starts no process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.integration.cluster_runs import PATIENCE_S, environment

JOB = """
import sys
from flinknet.datastream import StreamExecutionEnvironment

environment = StreamExecutionEnvironment().set_parallelism(2)

def fail(word):
    raise AssertionError("a function of the job was called")

words = environment.from_collection(sys.argv[1].split())
words.map(fail).key_by(fail).reduce(fail).sink_to(fail).name("counts")
print("before")
environment.execute("word count")
print("after")
"""


def explain(
    tmp_path: Path, *arguments: str, program: str = JOB
) -> subprocess.CompletedProcess[str]:
    """Run the command under an audit hook that fails if it starts a process or binds a port."""
    (tmp_path / "job.py").write_text(program)
    watched = (
        "import sys\n"
        "def watch(event, arguments):\n"
        "    assert event not in ('subprocess.Popen', 'os.fork', 'os.posix_spawn', 'socket.bind')\n"
        "sys.addaudithook(watch)\n"
        "from flinknet.cli.main import main\n"
        "main(['explain', 'job.py', *sys.argv[1:]])\n"
    )
    return subprocess.run(
        [sys.executable, "-c", watched, *arguments],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_job_is_explained_and_not_run(tmp_path: Path) -> None:
    run = explain(tmp_path, "--verbose", "a b")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("before\n")
    assert "after" not in run.stdout
    for part in (
        "worker-0: comfortable",
        "worker-1: comfortable",
        "Map (1/2)",
        "gate, REBALANCE from",
        'Job "word count": comfortable',
        "Memory that the exchange of a worker takes beyond a fresh process",
    ):
        assert part in run.stdout


def test_options_shape_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text("[network]\nnetwork_memory_bytes = 330_240\n")
    options = ("--workers", "1", "--slots", "4", "--config", "cluster.toml", "--json")
    run = explain(tmp_path, *options, "a b")
    assert run.returncode == 0, run.stderr
    assert run.stderr == "before\n"
    shown = json.loads(run.stdout)
    (worker,) = shown["workers"]
    assert (shown["job"], shown["verdict"], shown["buffers"]) == ("word count", "fits", 10)
    assert {owner["remote"] for owner in worker["owners"]} == {0}


def test_the_settings_that_suffice_are_named_for_a_small_cluster(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text('[network]\nnetwork_memory_bytes = "192KiB"\n')
    run = explain(tmp_path, "--verbose", "--config", "cluster.toml", "a b")
    assert run.returncode == 0, run.stderr
    assert "too small; it is refused" in run.stdout
    for setting in (231168, 297216, 1122816):
        assert f"network.network_memory_bytes = {setting} " in run.stdout


def test_too_few_slots_are_refused(tmp_path: Path) -> None:
    run = explain(tmp_path, "--workers", "1", "--slots", "1", "a b")
    assert run.returncode == 2
    assert "needs 2 slots" in run.stderr


def test_a_file_without_a_job_is_refused(tmp_path: Path) -> None:
    run = explain(tmp_path, program="print('nothing to do')")
    assert run.returncode == 2
    assert "job.py executed no job" in run.stderr
