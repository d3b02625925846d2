"""Programs and jobs that find each other by names that a coordinator knows."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flinknet.cluster.control.credentials import TOKEN_VARIABLE, new_token

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0

WRITER = """
import sys
import flinknet.sync

with flinknet.sync.open_writer("numbers", directory=sys.argv[1]) as writer:
    print("open", flush=True)
    sys.stdin.readline()
    writer.emit_many(range(1000))
"""

READER = """
import sys
import flinknet.sync

with flinknet.sync.open_reader("numbers", directory=sys.argv[1]) as reader:
    print(sum(reader))
"""

JOB = """
import sys
from flinknet.datastream import NetworkSource, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_source(NetworkSource("numbers", directory=sys.argv[1]))
print(sum(numbers.execute_and_collect()))
"""


@pytest.fixture
def environment() -> dict[str, str]:
    """Return the environment of a test's processes, with one common secret."""
    return {
        **os.environ,
        TOKEN_VARIABLE: new_token(),
        "FLINKNET_CLUSTER_WORKERS": "1",
        "PYTHONPATH": str(ROOT),
    }


@contextmanager
def python(*arguments: str, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, *arguments],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


@contextmanager
def coordinator(env: dict[str, str], port: str = "0") -> Iterator[tuple[int, str]]:
    """Run a coordinator without workers; yield its process id and address."""
    with python(
        "-m",
        "flinknet.cluster.coordinator",
        env={**env, "FLINKNET_CLUSTER_COORDINATOR_PORT": port},
    ) as started:
        assert started.stdout is not None
        yield started.pid, f"http://{json.loads(started.stdout.readline())['address']}"


@pytest.mark.parametrize("program", [READER, JOB], ids=["program", "job"])
def test_a_killed_writer_is_forgotten_and_the_next_one_is_found(
    environment: dict[str, str], program: str
) -> None:
    with coordinator(environment) as (_, address):
        with python("-c", WRITER, address, env=environment) as killed:
            assert killed.stdout is not None
            assert killed.stdout.readline() == "open\n"
            # A killed writer cannot withdraw its name.
            killed.kill()
            killed.wait()
        with (
            python("-c", program, address, env=environment) as reader,
            python("-c", WRITER, address, env=environment) as writer,
        ):
            # on a loaded machine the job starts late, and the writer reports that it waits
            written, _ = writer.communicate("go\n", timeout=PATIENCE_S)
            assert (writer.returncode, written) == (0, "open\n")
            assert reader.communicate(timeout=PATIENCE_S) == ("499500\n", "")


def test_a_coordinator_that_is_killed_and_started_again_hears_the_names(
    environment: dict[str, str],
) -> None:
    with (
        coordinator(environment) as (pid, address),
        python("-c", WRITER, address, env=environment) as writer,
    ):
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        os.kill(pid, signal.SIGKILL)
        with (
            coordinator(environment, address.rpartition(":")[2]) as (_, again),
            python("-c", READER, again, env=environment) as reader,
        ):
            assert again == address
            _, errors = writer.communicate("go\n", timeout=PATIENCE_S)
            assert 'is lost: readers cannot find "numbers" until it is back' in errors
            assert reader.communicate(timeout=PATIENCE_S) == ("499500\n", "")


def test_the_program_of_the_page_finds_its_names_there_too(environment: dict[str, str]) -> None:
    page = (ROOT / "docs" / "how-to" / "threads.md").read_text()
    assert 'directory="http://127.0.0.1:8081"' in page
    (program,) = re.findall(r"```python\n(# threads\.py\n.*?)```", page, re.DOTALL)
    with coordinator(environment) as (_, address):
        there = program.replace('directory="names"', f'directory="{address}"')
        assert there.count(address) == 2
        with python("-c", there, env=environment) as run:
            assert run.communicate(timeout=PATIENCE_S) == ("100000 readings\n", "")
