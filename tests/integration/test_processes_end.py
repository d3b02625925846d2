"""However a run ends, it gives the reason within seconds and leaves no process behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.integration.cluster_runs import ENDLESS_JOB, ONE_WORKER, start_run

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="processes are watched through pidfd, which is Linux's"
)


@pytest.fixture
def job(tmp_path: Path) -> str:
    path = tmp_path / "job.py"
    path.write_text(ENDLESS_JOB)
    return str(path)


def test_a_killed_worker_ends_the_job_with_its_name_and_cause(tmp_path: Path, job: str) -> None:
    """The message names the kill, although the other worker may see a broken connection first."""
    with start_run(job, cwd=tmp_path) as run:
        worker = run.wait_until_running()["worker-1"]
        os.kill(worker, signal.SIGKILL)
        status, output = run.wait()
        assert status == 1
        assert (
            f'job "endless" failed: worker worker-1 (pid {worker}) was lost: '
            f"killed by signal 9 (SIGKILL)"
        ) in output
        assert "RemoteTransportError" not in output
        assert run.wait_for_orphans() == []


def test_a_worker_that_hangs_is_noticed_by_its_silence(tmp_path: Path, job: str) -> None:
    (tmp_path / "cluster.toml").write_text(
        "[cluster]\nheartbeat_interval_ms = 100\nheartbeat_timeout_ms = 1000\nstop_timeout_ms = 500"
    )
    with start_run(job, ONE_WORKER, "--config", "cluster.toml", cwd=tmp_path) as run:
        worker = run.wait_until_running()["worker-0"]
        os.kill(worker, signal.SIGSTOP)
        status, output = run.wait()
        assert status == 1
        assert f"worker worker-0 (pid {worker}) was lost: no sign of life for 1000 ms" in output
        assert run.wait_for_orphans() == [], "a stopped process does not hear SIGTERM"


def test_a_killed_coordinator_ends_a_job_that_cannot_go_on(tmp_path: Path, job: str) -> None:
    """A killed coordinator is replaced, and a job without checkpoints fails with its loss."""
    with start_run(job, cwd=tmp_path) as run:
        coordinator = run.wait_until_running()["coordinator"]
        os.kill(coordinator, signal.SIGKILL)
        status, output = run.wait()
        assert status == 1
        assert f"the coordinator (pid {coordinator}) killed by signal 9 (SIGKILL): ano" in output
        assert f'"endless" failed: the coordinator (pid {coordinator}) was lost while the' in output
        assert run.wait_for_orphans() == []


def test_a_coordinator_that_hangs_is_noticed_by_its_silence(tmp_path: Path, job: str) -> None:
    """The client notices a hanging coordinator and ends the run."""
    (tmp_path / "cluster.toml").write_text(
        "[cluster]\nheartbeat_interval_ms = 100\ncoordinator_timeout_ms = 1000\n"
        "stop_timeout_ms = 500\ncause_grace_ms = 100\n"
    )
    with start_run(job, "--config", "cluster.toml", cwd=tmp_path) as run:
        coordinator = run.wait_until_running()["coordinator"]
        os.kill(coordinator, signal.SIGSTOP)
        status, output = run.wait()
        assert status == 1
        assert "flinknet: the cluster is lost: the coordinator at 127.0.0.1:" in output
        assert "has not answered for 1" in output
        assert run.wait_for_orphans() == [], "a stopped process does not hear SIGTERM"


def test_a_coordinator_that_is_told_to_stop_is_named_as_the_cause(tmp_path: Path, job: str) -> None:
    """A coordinator that is told to stop is named as the cause.

    Its workers end, too, perhaps first, but only because it sends them away.
    """
    with start_run(job, cwd=tmp_path) as run:
        coordinator = run.wait_until_running()["coordinator"]
        os.kill(coordinator, signal.SIGTERM)
        status, output = run.wait()
        assert status == 1
        assert f"the coordinator (pid {coordinator}) " in output
        assert "was told to stop by signal 15 (SIGTERM)" in output
        assert "worker-" not in output.splitlines()[-1]
        assert run.wait_for_orphans() == []


RESETTING_JOB = """
import ctypes, gc
from flinknet.cluster.control.control_link import ControlLink
from flinknet.datastream import GeneratorSource, StreamExecutionEnvironment

def reset_control_link():
    gc.unfreeze()  # A worker whose collections take long has frozen what it holds.
    (link,) = [found for found in gc.get_objects() if isinstance(found, ControlLink)]
    descriptor = link._conversation._socket.get_extra_info("socket").fileno()
    # AF_UNSPEC: Linux then sends a RST.
    assert ctypes.CDLL(None).connect(descriptor, bytes(16), 16) == 0

def work(pair):
    if pair[1] == 50_000:
        reset_control_link()
    return pair

environment = StreamExecutionEnvironment().set_parallelism(2)
numbers = environment.from_source(GeneratorSource(lambda number: (number % 7, number)))
numbers.key_by(lambda record: record[0]).map(work).sink_to(lambda record: None)
environment.execute("resetting")
"""


def test_a_control_link_that_is_reset_is_named_as_the_cause(tmp_path: Path) -> None:
    """A worker with a reset control connection ends with status 3, and is named as the cause."""
    path = tmp_path / "job.py"
    path.write_text(RESETTING_JOB)
    with start_run(str(path), cwd=tmp_path) as run:
        status, output = run.wait()
        assert status == 1
        assert "exited with status 3, because its connection to the coordinator was lost" in output
        assert run.wait_for_orphans() == []


def test_a_killed_launcher_leaves_no_orphans(tmp_path: Path, job: str) -> None:
    with start_run(job, cwd=tmp_path) as run:
        children = run.wait_until_running()
        assert set(children) == {"coordinator", "worker-0", "worker-1"}
        run.kill(signal.SIGKILL)
        assert run.wait()[0] == -signal.SIGKILL
        assert run.wait_for_orphans() == []


@pytest.mark.parametrize(
    ("number", "expected"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else "",
)
def test_a_signal_stops_the_run_in_order(
    tmp_path: Path, job: str, number: signal.Signals, expected: int
) -> None:
    with start_run(job, ONE_WORKER, cwd=tmp_path) as run:
        run.wait_until_running()
        run.kill(number)
        status, output = run.wait()
        assert status == expected
        assert "Traceback" not in output
        assert run.wait_for_orphans() == []


STARTING_JOB = """
import subprocess
from flinknet.datastream import GeneratorSource, StreamExecutionEnvironment

def start(record):
    if record == 0:
        print("has started", subprocess.Popen(["sleep", "600"], start_new_session=True).pid)
    return record

environment = StreamExecutionEnvironment()
numbers = environment.from_source(GeneratorSource(lambda number: number, {count}))
numbers.rebalance().map(start).set_parallelism(2).sink_to(lambda record: None)
environment.execute("starting")
"""


@pytest.mark.parametrize(
    "end", ["finished", "worker killed", "launcher killed", "launcher interrupted"]
)
def test_processes_of_user_code_do_not_survive_the_run(tmp_path: Path, end: str) -> None:
    """Processes that user code has started end with the run.

    They would keep their ports and memory until the next run needs them.
    """
    path = tmp_path / "job.py"
    path.write_text(STARTING_JOB.format(count=1000 if end == "finished" else None))
    with start_run(str(path), ONE_WORKER, cwd=tmp_path) as run:
        line = run.wait_for_line("has started ")
        run.hold("sleep", int(line.split()[-1]))
        if end == "worker killed":
            os.kill(run.hold_children()["worker-0"], signal.SIGKILL)
        elif end != "finished":
            run.hold_children()
            run.kill(signal.SIGKILL if end == "launcher killed" else signal.SIGINT)
        run.wait()
        assert run.wait_for_orphans() == []


def test_control_c_while_the_cluster_starts(tmp_path: Path, job: str) -> None:
    with start_run(job, cwd=tmp_path) as run:
        while not run.children():
            assert run.is_running
        run.kill(signal.SIGINT)
        status, output = run.wait()
        assert status == 130
        assert "Traceback" not in output
        assert run.wait_for_orphans() == []


def test_a_cluster_that_does_not_come_up_in_time_is_given_up(tmp_path: Path, job: str) -> None:
    (tmp_path / "cluster.toml").write_text("[cluster]\nstart_timeout_ms = 1\n")
    with start_run(job, "--config", "cluster.toml", cwd=tmp_path) as run:
        status, output = run.wait()
        assert status == 1
        assert "did not start within 1 ms" in output
        assert "cluster.start_timeout_ms" in output


def test_a_user_function_that_never_returns_does_not_keep_the_run(tmp_path: Path) -> None:
    """A run ends although a function reacts neither to cancellation nor to SIGTERM."""
    (tmp_path / "cluster.toml").write_text(
        "[cluster]\ncancel_timeout_ms = 300\nstop_timeout_ms = 300\n"
    )
    path = tmp_path / "job.py"
    path.write_text(
        "from flinknet.datastream import StreamExecutionEnvironment\n"
        "environment = StreamExecutionEnvironment()\n"
        "def hang(record):\n"
        "    print('hanging')\n"
        "    while True: pass\n"
        "environment.from_collection([1]).rebalance().map(hang).print()\n"
        "environment.execute('hanging')\n"
    )
    with start_run(str(path), ONE_WORKER, "--config", "cluster.toml", cwd=tmp_path) as run:
        run.wait_for_line("hanging")
        run.hold_children()
        run.kill(signal.SIGINT)
        assert run.wait()[0] == 130
        assert run.wait_for_orphans() == []
