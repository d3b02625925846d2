"""``flinknet cluster``, and jobs on a cluster that stays, as a user runs them."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.free_port import free_port
from tests.integration.cluster_runs import ENDLESS_JOB, PATIENCE_S, ROOT, environment, start_run

SUMS = """
from flinknet.datastream import CollectSink, GeneratorSource, StreamExecutionEnvironment

environment = StreamExecutionEnvironment().set_parallelism(2)
numbers = environment.from_source(GeneratorSource(lambda number: (number % 3, number), 9))
sums = numbers.key_by(lambda record: record[0]).reduce(
    lambda a, b: (a[0], a[1] + b[1]), emit="end_of_input"
)
sums.sink_to(CollectSink()).name("out")
print(sorted(environment.execute("sums").collected["out"]))
"""
SUMS_PRINTED = "[(0, 9), (1, 12), (2, 15)]"

FAILS = """
from flinknet.datastream import GeneratorSource, StreamExecutionEnvironment

environment = StreamExecutionEnvironment()
numbers = environment.from_source(GeneratorSource(lambda number: number, 9))
numbers = numbers.map(lambda number: print("at", number) or 1 // (3 - number))
numbers.sink_to(lambda record: None)
environment.execute("fails")
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Set the user's directories, and stop every cluster after the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("FLINKNET_CLUSTER_TOKEN", raising=False)
    for name, text in (("sums.py", SUMS), ("fails.py", FAILS), ("endless.py", ENDLESS_JOB)):
        (tmp_path / name).write_text(text)
    yield tmp_path
    for directory in (tmp_path / "state" / "flinknet" / "clusters").glob("*"):
        flinknet("cluster", "stop", directory.name)


def flinknet(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "flinknet.cli", *arguments],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def told(*arguments: str) -> Any:
    run = flinknet(*arguments, "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def state(home: Path, name: str) -> Path:
    return home / "state" / "flinknet" / "clusters" / name


def supervisor(home: Path, name: str) -> int:
    return int(json.loads((state(home, name) / "cluster.json").read_text())["pid"])


def descendants(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in descendants(int(child)))]


def wait_until_gone(pids: list[int]) -> None:
    """Wait for the end of processes; an orphan is gone once its reaper has collected it."""
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            assert select.select([handle], [], [], PATIENCE_S)[0], f"process {pid} has not ended"
        finally:
            os.close(handle)


def test_a_cluster_stays_runs_jobs_outlives_a_worker_and_leaves_nothing(home: Path) -> None:
    address = told("cluster", "start", "demo", "--workers=1", "--slots=2")["address"]
    again = flinknet("cluster", "start", "demo")
    assert again.returncode == 2
    assert f"cluster demo is already running at {address}" in again.stderr

    first = flinknet("run", str(home / "sums.py"), "--cluster=demo")
    assert (first.returncode, first.stdout.strip()) == (0, SUMS_PRINTED), first.stderr
    assert "sums: FINISHED" in first.stderr, "the counts of the subtasks are shown"

    status = told("cluster", "status", "demo")
    (worker,) = status["workers"]
    assert (status["slots"], status["free_slots"]) == (2, 2)
    os.kill(worker["pid"], signal.SIGKILL)
    handle = os.pidfd_open(worker["pid"]) if Path(f"/proc/{worker['pid']}").exists() else None
    if handle is not None:
        select.select([handle], [], [], PATIENCE_S)
        os.close(handle)
    # The coordinator waits for the slots of the replacement worker.
    second = flinknet("run", str(home / "sums.py"), "--cluster=demo")
    assert (second.returncode, second.stdout.strip()) == (0, SUMS_PRINTED), second.stderr
    states = {one["worker_id"]: one["loss"] for one in told("cluster", "status", "demo")["workers"]}
    assert states["worker-0"] is not None
    assert states["worker-0.1"] is None

    processes = descendants(supervisor(home, "demo"))
    assert len(processes) >= 4, "supervisor, coordinator, a worker and its keeper"
    stopped = flinknet("cluster", "stop", "demo")
    assert stopped.returncode == 0, stopped.stderr
    for pid in processes:
        assert not Path(f"/proc/{pid}").exists() or "Z" in _state(pid)
    assert "the cluster has been stopped" in (state(home, "demo") / "cluster.log").read_text()
    assert flinknet("cluster", "status", "demo").returncode == 2
    assert "does not run" in flinknet("cluster", "stop", "demo").stderr


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


def test_a_job_fails_is_interrupted_or_goes_on_alone(home: Path) -> None:
    told("cluster", "start", "--workers=1", "--slots=2")
    failed = flinknet("run", str(home / "fails.py"), "--cluster=default")
    assert failed.returncode == 1
    assert "ZeroDivisionError" in failed.stderr, "the first cause comes back"
    assert failed.stdout.splitlines() == [f"at {number}" for number in range(4)]
    printed = state(home, "default") / "cluster.out"
    assert failed.stdout == printed.read_text()

    with start_run(str(home / "endless.py"), "--cluster=default", cwd=home) as run:
        run.wait_for_line("RUNNING")
        run.kill(signal.SIGINT)
        status, output = run.wait()
    assert (status, "the job has been cancelled" in output) == (130, True), output

    detached = flinknet("run", str(home / "endless.py"), "--cluster=default", "--detach")
    job_id = detached.stdout.strip()
    assert (detached.returncode, len(job_id)) == (0, 32), detached.stderr
    # a command without a name uses the cluster called default
    assert [one["state"] for one in told("jobs")["jobs"] if one["jid"] == job_id] == ["RUNNING"]
    full = flinknet("run", str(home / "endless.py"), "--cluster=default")
    assert full.returncode == 2
    assert "needs 2 slots" in full.stderr, "it is refused at once, with the numbers"
    waits = ("run", str(home / "sums.py"), "--cluster=default", "--wait-for-slots=60s")
    with start_run(*waits[1:], cwd=home) as run:
        run.wait_for_line("waits for slots")
        gives_up = flinknet(*waits, "--wait-for-slots=100ms")
        assert gives_up.returncode == 1
        assert "it has waited for slots for 0.1 s" in gives_up.stderr
        assert "waits for slots" in flinknet("jobs").stdout
        assert flinknet("cancel", job_id).stdout.strip() == "CANCELED"
        status, output = run.wait()
    assert (status, SUMS_PRINTED in output) == (0, True), output


def test_a_cluster_that_dies_says_so_and_can_be_started_again(home: Path) -> None:
    told("cluster", "start", "demo", "--workers=1")
    pid = supervisor(home, "demo")
    processes = descendants(pid)
    with start_run(str(home / "endless.py"), "--cluster=demo", cwd=home) as endless:
        endless.wait_for_line("RUNNING")
        os.kill(pid, signal.SIGKILL)
        wait_until_gone(processes)
        ended, output = endless.wait()
    assert (ended, "has been stopped, or has died" in output) == (1, True), output
    status = flinknet("cluster", "status", "demo")
    assert status.returncode == 1
    assert "cluster demo is dead" in status.stdout
    assert "listening on" in status.stdout, "the last lines of its log"
    run = flinknet("run", str(home / "sums.py"), "--cluster=demo")
    assert (run.returncode, "cluster demo has died" in run.stderr) == (2, True)
    told("cluster", "start", "demo", "--workers=1")


def test_a_cluster_that_cannot_start_says_why(home: Path) -> None:
    config = home / "bad.toml"
    config.write_text("[cluster]\nlauncher = 'none'\n")
    run = flinknet("cluster", "start", "demo", f"--config={config}")
    assert run.returncode == 2
    assert 'cluster.launcher is "none"' in run.stderr
    assert flinknet("cluster", "start", "../demo").returncode == 2


def test_a_worker_joins_a_coordinator_that_stands_alone(home: Path) -> None:
    told("cluster", "start", "demo", "--workers=0")
    alone = flinknet("run", str(home / "sums.py"), "--cluster=demo")
    assert alone.returncode == 2
    assert "needs 2 slots" in alone.stderr
    data_port, metrics_port, not_taken = free_port(), free_port(), free_port()
    (home / "fixed.toml").write_text(
        f"[cluster]\ndata_port = {data_port}\nmetrics_port = {not_taken}\nworkers = 1\n"
    )
    options = ("--slots=2", f"--config={home / 'fixed.toml'}", f"--metrics-port={metrics_port}")
    with subprocess.Popen(
        [sys.executable, "-m", "flinknet.cli", "worker", "--coordinator=demo", *options],
        env=environment(),
        cwd="/",
        stderr=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stderr is not None
        name = worker.stderr.readline().split()[1]
        assert name.startswith(os.uname().nodename)
        while not told("cluster", "status", "demo")["workers"]:
            assert worker.poll() is None, worker.stderr.read()
        (row,) = told("cluster", "status", "demo")["workers"]
        assert (row["worker_id"], row["pid"]) == (name, worker.pid), "signals reach it"
        assert row["address"] == f"127.0.0.1:{data_port}", "the configuration's"
        assert row["metrics_address"] == f"127.0.0.1:{metrics_port}", "the option goes before it"
        taken = flinknet("worker", "--coordinator=demo", f"--data-port={data_port}")
        assert taken.returncode == 2
        assert str(data_port) in taken.stderr
        assert flinknet("worker", "--coordinator=demo", "--data-port=65536").returncode == 2
        run = flinknet("run", str(home / "sums.py"), "--cluster=demo")
        assert (run.returncode, run.stdout.strip()) == (0, SUMS_PRINTED), run.stderr
        assert flinknet("cluster", "stop", "demo").returncode == 0
        assert worker.wait(PATIENCE_S) == 0, "its coordinator has told it to stop"


def test_a_program_sends_its_jobs_there_by_flinks_options(home: Path) -> None:
    address = told("cluster", "start", "demo", "--workers=1")["address"]
    host, _, port = address.rpartition(":")
    named = "'rest.address': 'demo'"
    by_address = f"'rest.address': '{host}', 'rest.port': '{port}'"
    variables = environment()
    for options in (named, by_address):
        program = (
            "from flinknet.common import Configuration\n"
            + SUMS.partition("environment =")[0]
            + f"options = {{'execution.target': 'remote', {options}}}\n"
            + "made = StreamExecutionEnvironment.get_execution_environment(\n"
            + "    Configuration.from_dict(options)\n)\n"
            + "environment ="
            + SUMS.partition("environment =")[2].replace("StreamExecutionEnvironment()", "made")
        )
        (home / "program.py").write_text(program)
        run = subprocess.run(
            [sys.executable, str(home / "program.py")],
            env=variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (run.returncode, run.stdout.strip()) == (0, SUMS_PRINTED), run.stderr
        token = (state(home, "demo") / "token").read_text()
        variables = {**variables, "FLINKNET_CLUSTER_TOKEN": token}
    assert len(told("jobs", "--cluster=demo")["jobs"]) == 2


HELPER = """
from dataclasses import dataclass

@dataclass
class Total:
    key: int
    value: int

def total(number):
    return Total(number % 2, number)
"""
USES_HELPER = """
from flinknet.datastream import CollectSink, GeneratorSource, StreamExecutionEnvironment
from tools import sums

environment = StreamExecutionEnvironment().set_parallelism(2)
environment.register_type(sums.Total)
totals = environment.from_source(GeneratorSource(lambda number: number, 6)).map(sums.total)
added = totals.key_by(lambda one: one.key).reduce(
    lambda a, b: sums.Total(a.key, a.value + b.value), emit="end_of_input"
)
added.sink_to(CollectSink()).name("out")
out = environment.execute("helped").collected["out"]
print(sorted((one.key, one.value) for one in out))
"""


def test_modules_beside_a_job_reach_workers_that_cannot_import_them(home: Path) -> None:
    """Modules beside a job reach workers, also if another job's modules have the same names."""
    told("cluster", "start", "demo", "--workers=2")
    for number, kept in enumerate(("number % 2", "number % 3")):
        tools = home / f"job-{number}" / "tools"
        tools.mkdir(parents=True)
        (tools / "__init__.py").write_text("from .sums import total\n")
        (tools / "sums.py").write_text(HELPER.replace("number % 2", kept))
        (tools.parent / "job.py").write_text(USES_HELPER)
        run = flinknet("run", str(tools.parent / "job.py"), "--cluster=demo")
        expected = ["[(0, 6), (1, 9)]", "[(0, 3), (1, 5), (2, 7)]"][number]
        assert (run.returncode, run.stdout.strip()) == (0, expected), run.stderr


USES_FILES = """
from flinknet.datastream import CollectSink, StreamExecutionEnvironment, job_archive

def described(number):
    import single
    from brought import deep
    text = (job_archive("data") / "text").read_text()
    return f"{number} {single.ONE} {deep.TWO} {text}"

environment = StreamExecutionEnvironment()
environment.from_collection([1]).map(described).sink_to(CollectSink()).name("out")
print(*environment.execute("files").collected["out"])
"""


@pytest.mark.parametrize("where", [["--cluster=demo"], ["--workers=1"]])
def test_files_come_with_a_job_and_go_with_it(home: Path, where: list[str]) -> None:
    scratch = home / "scratch"
    scratch.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(scratch))
        if where == ["--cluster=demo"]:
            told("cluster", "start", "demo", "--workers=1")
        (home / "files.py").write_text(USES_FILES)
        (home / "elsewhere").mkdir()
        (home / "elsewhere" / "single.py").write_text("ONE = 'one'")
        with zipfile.ZipFile(home / "brought-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr("brought/__init__.py", "")
            wheel.writestr("brought/deep.py", "TWO = 'two'")
        with zipfile.ZipFile(home / "a.zip", "w") as archive:
            archive.writestr("text", "three")
        python_files = f"{home}/elsewhere/single.py,{home}/brought-1-py3-none-any.whl"
        run = flinknet(
            *("run", str(home / "files.py"), *where),
            *(f"--py-files={python_files}", f"--archives={home}/a.zip#data"),
        )
        assert (run.returncode, run.stdout.strip()) == (0, "1 one two three"), run.stderr
        assert list(scratch.glob("flinknet-files-*")) == []


def test_other_versions_are_refused_and_named(home: Path) -> None:
    address = told("cluster", "start", "demo", "--workers=0")["address"]
    other = (
        "import sys, flinknet.version\n"
        "flinknet.version.__version__ = '0.0.1'\n"
        "from {module} import main\n"
        "sys.exit(main())\n"
    )
    token = (state(home, "demo") / "token").read_text()
    variables = {**environment(), "FLINKNET_CLUSTER_TOKEN": token, "PYTHONHASHSEED": "0"}
    commands = [
        ("flinknet.cluster.worker.worker", [f"--coordinator={address}", "--worker-id=old"]),
        ("flinknet.cli.main", ["run", str(home / "sums.py"), "--cluster=demo"]),
    ]
    for module, arguments in commands:
        run = subprocess.run(
            [sys.executable, "-c", other.format(module=module), *arguments],
            env=variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert run.returncode == 2, run.stderr
        assert "has flinknet 0.0.1 on Python" in run.stderr
        assert "coordinator has flinknet " in run.stderr


def test_the_commands_of_the_page_work_as_printed(home: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "staying-cluster.md").read_text()
    program = page.partition("```python\n")[2].partition("```")[0]
    (home / "letters.py").write_text(program)
    commands = page.partition("```sh\n")[2].partition("```")[0]
    bin_directory = home / "bin"
    bin_directory.mkdir()
    command = bin_directory / "flinknet"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flinknet.cli "$@"\n')
    command.chmod(0o755)
    run = subprocess.run(
        ["sh", "-e", "-c", commands],
        cwd=home,
        env={**environment(), "PATH": f"{bin_directory}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "('m', 1)\n('i', 4)\n('s', 4)\n('p', 2)\n" in run.stdout
    assert run.stdout.rstrip().endswith("cluster demo has been stopped")


def test_a_wrong_token_is_refused(home: Path) -> None:
    address = told("cluster", "start", "demo", "--workers=0")["address"]
    token = home / "wrong"
    token.write_text("0123456789abcdef0123456789abcdef")
    token.chmod(0o600)
    file = home / "config" / "flinknet" / "clusters.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'[clusters.far]\ncoordinator = "{address}"\ntoken_file = "{token}"\n')
    refused = flinknet("jobs", "--cluster=far")
    assert refused.returncode == 2
    assert "the cluster token is missing or wrong" in refused.stderr
    token.write_text((state(home, "demo") / "token").read_text())
    assert "there are no jobs" in flinknet("jobs", "--cluster=far").stdout
