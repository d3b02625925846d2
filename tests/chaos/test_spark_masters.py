"""``flinknet run --on spark`` over Spark Connect, on executors without flinknet."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinknet.compiled_modules import IMPLEMENTATION
from tests.chaos.spark_masters import bare_python, connect_server, standalone
from tests.integration.cluster_runs import ENDLESS_JOB, start_run

pytest.importorskip("grpc_status", reason="Spark Connect needs pyspark[connect]")

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(300)]

JOB = """
import sys
import flinknet
from flinknet.compiled_modules import IMPLEMENTATION
from flinknet.datastream import StreamExecutionEnvironment

def place(number):
    print(number, flinknet.__file__, IMPLEMENTATION, sys.executable)
    return number

environment = StreamExecutionEnvironment().set_parallelism(2)
numbers = environment.from_collection(range(100)).map(place)
numbers.key_by(lambda number: number % 2).reduce(lambda a, b: a + b, emit="end_of_input").print()
environment.execute("places")
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare_python(tmp_path_factory.mktemp("bare") / "python")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, python: Path) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("masters")
    with standalone(folder, python) as master, connect_server(folder, python, master) as address:
        yield address


def test_executors_without_flinknet_get_the_programs_own(
    server: str, python: Path, tmp_path: Path
) -> None:
    (tmp_path / "job.py").write_text(JOB)
    with start_run("job.py", "--on", "spark", "--master", server, cwd=tmp_path) as run:
        status, output = run.wait()
    assert status == 0, output
    lines = output.splitlines()
    assert {"1> 2450", "1> 2500"} <= {line.replace("2>", "1>") for line in lines}
    places = [line.split() for line in lines if "__init__.py" in line]
    assert sorted(int(number) for number, *_ in places) == list(range(100))
    for _, file, implementation, executable in places:
        assert "/work/app-" in file
        assert implementation == IMPLEMENTATION
        assert executable == str(python)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_run_that_ends(
    server: str, tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "job.py").write_text(ENDLESS_JOB)
    with start_run("job.py", "--on", "spark", "--master", server, cwd=tmp_path) as run:
        run.wait_until_running()
        for pid in workers_of(tmp_path):
            run.hold(f"process {pid}", pid)
        run.kill(number)
        status, output = run.wait()
        assert status == (130 if number == signal.SIGINT else -number), output
        assert run.wait_for_orphans() == []


def test_too_few_slots_are_refused_with_numbers(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.py").write_text(ENDLESS_JOB)
    monkeypatch.setenv("FLINKNET_SPARK_SLOTS_TIMEOUT_MS", "1")
    arguments = ("--on", "spark", "--master", server, "--workers", "3")
    with start_run("job.py", *arguments, cwd=tmp_path) as run:
        status, output = run.wait()
    assert status == 2, output
    assert "3 workers" in output
    assert "2 tasks at once" in output
    assert "Traceback" not in output


def workers_of(folder: Path) -> list[int]:
    """Return the processes with a working directory, which include workers in local executors."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.joinpath("cwd").resolve() == folder and int(process.name) != os.getpid():
                found.append(int(process.name))
        except OSError:
            continue
    assert len(found) > 2, (found, sys.platform)
    return found
