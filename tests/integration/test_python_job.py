"""``python job.py``: a program that runs its jobs itself, as its user sees it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import zipfile
from pathlib import Path

from tests.integration.cluster_runs import environment, python_run

IN_A_LOOP = """
import asyncio, logging
from flinknet.datastream import StreamExecutionEnvironment
from flinknet.errors import ConfigurationError, JobCancelledError
from flinknet.datastream import GeneratorSource

log = logging.getLogger("user")

def double(number):
    log.info("doubling %d", number)
    return 2 * number

async def main():
    env = StreamExecutionEnvironment()
    env.from_collection([21]).map(double).print()
    try:
        env.execute()
    except ConfigurationError as error:
        print(error)
    env.from_collection([21]).map(double).print()
    result = await env.execute_async("in a loop")
    print(result.state, result.workers)
    env.from_source(GeneratorSource(lambda number: number)).sink_to(lambda record: None)
    client = env.execute_async("endless")
    await client.cancel()
    try:
        await client
    except JobCancelledError as error:
        print("cancelled")

asyncio.run(main())
"""

ON_A_TERMINAL = """
from flinknet.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment()
env.from_collection(["printed"]).print()
env.execute("shown")
"""

WITHOUT_SINKS = """
from flinknet.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment().set_parallelism(2)
env.enable_checkpointing(50)
env.get_checkpoint_config().set_checkpoint_storage_dir("checkpoints")
numbers = env.from_collection(range(1_000))
numbers.map(lambda number: print(number, flush=True))
numbers.key_by(lambda number: number % 10).reduce(lambda one, other: one + other)
env.execute("for what it prints")
"""

WITH_MODULES_OF_ITS_OWN = """
import functools, sys, warnings
sys.path.insert(0, "archive.zip")
sys.path.append("later")
from flinknet.datastream import StreamExecutionEnvironment
import archived

class Own(UserWarning):
    pass

@functools.lru_cache
def seen(number):
    import found_later
    assert number == 2, "with -O this is not asserted"
    warnings.warn("ignored by -W", FutureWarning)
    try:
        warnings.warn("an error for the program", Own)
    except Own as error:
        return archived.NAME, found_later.NAME, str(error), sys.flags.optimize, sys.path

warnings.simplefilter("error", Own)
env = StreamExecutionEnvironment()
with env.from_collection([1]).map(seen).execute_and_collect() as found:
    [(*names, path)] = found
print(*names, path == sys.path)
"""


def write(directory: Path, program: str) -> None:
    (directory / "job.py").write_text(program)
    (directory / "cluster.toml").write_text("[cluster]\nworkers = 1\nlog_format = 'json'\n")


def run_program(
    directory: Path, program: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, without a terminal."""
    write(directory, program)
    return python_run("job.py", cwd=directory, **variables)


def test_a_program_with_an_event_loop_of_its_own(tmp_path: Path) -> None:
    """A program with its own event loop is configured by the file in FLINKNET_CONFIG.

    Its prints go to standard output, and its logs to standard error.
    """
    run = run_program(tmp_path, IN_A_LOOP, FLINKNET_CONFIG="cluster.toml")
    assert run.returncode == 0, run.stderr
    refused, *printed = run.stdout.splitlines()
    assert "await env.execute_async" in refused
    assert printed == ["42", "FINISHED ('worker-0',)", "cancelled"]
    (logged,) = [json.loads(line) for line in run.stderr.splitlines()]
    assert logged.pop("time")
    assert logged == {
        "level": "INFO",
        "logger": "user",
        "process": "worker-0",
        "message": "doubling 21",
    }


def test_workers_run_functions_as_the_program_would(tmp_path: Path) -> None:
    """Modules in archives and relative paths are found, in the program's order.

    Options of the interpreter and warning filters apply, too.
    """
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("archived.py", "NAME = 'archived'")
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "found_later.py").write_text("NAME = 'later'")
    (tmp_path / "cluster.toml").write_text("[cluster]\nworkers = 1\n")
    (tmp_path / "job.py").write_text(WITH_MODULES_OF_ITS_OWN)
    run = python_run(
        "-O", "-Wignore::FutureWarning", "job.py", cwd=tmp_path, FLINKNET_CONFIG="cluster.toml"
    )
    assert run.stdout == "archived later an error for the program 1 True\n", run.stderr
    assert run.stderr == ""


def test_a_terminal_sees_progress_and_a_summary(tmp_path: Path) -> None:
    """A terminal shows progress and a summary, and standard output has the job's prints only."""
    write(tmp_path, ON_A_TERMINAL)
    ours, theirs = pty.openpty()
    with (
        os.fdopen(ours, "rb", 0) as terminal,
        subprocess.Popen(
            [sys.executable, "job.py"],
            cwd=tmp_path,
            env=environment(FLINKNET_CLUSTER_WORKERS="1", TERM="xterm"),
            stdout=subprocess.PIPE,
            stderr=theirs,
        ) as run,
    ):
        os.close(theirs)
        shown = bytearray()
        try:
            while data := terminal.read(65536):
                shown += data
        except OSError:
            pass  # the other end of the terminal is closed
        assert run.stdout is not None
        printed = run.stdout.read()
    text = shown.decode()
    assert run.returncode == 0, text
    assert printed == b"printed\n"
    assert "starting the cluster" in text
    assert "http://127.0.0.1:" in text
    assert "shown: FINISHED after" in text
    assert "backpressured" in text


COLLECTING = """
from flinknet.datastream import GeneratorSource, RateLimitedSource, StreamExecutionEnvironment

class Mine:
    def __init__(self, number):
        self.number = number

env = StreamExecutionEnvironment().set_parallelism(2)

numbers = env.from_source(GeneratorSource(lambda number: number), name="endless")
print(len(numbers.map(lambda number: number + 1).execute_and_collect(limit=5)))

ordered = env.from_collection(range(3000)).map(Mine).set_parallelism(1).execute_and_collect()
print([one.number for one in ordered] == list(range(3000)))

env.enable_checkpointing(50)
env.get_checkpoint_config().set_checkpoint_storage_dir("checkpoints")
slow = RateLimitedSource(GeneratorSource(lambda number: number), 1000)
with env.from_source(slow).execute_and_collect() as records:
    seen = {next(records) for _ in range(20)}
print(len(seen))

def fail(number):
    raise ValueError("no such number")

try:
    StreamExecutionEnvironment().from_collection([1]).map(fail).execute_and_collect(limit=1)
except Exception as error:
    print(type(error).__name__, "no such number" in str(error))
"""


def test_records_come_while_the_job_runs(tmp_path: Path) -> None:
    """A limit ends an endless job, and the order of one upstream subtask is kept.

    Records of the program's own classes arrive as such. With checkpoints, records arrive when a
    checkpoint is complete.
    """
    run = run_program(tmp_path, COLLECTING, FLINKNET_CLUSTER_WORKERS="1")
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["5", "True", "20", "JobFailedError True"]


def test_a_program_whose_streams_end_in_no_sink(tmp_path: Path) -> None:
    """A program without sinks runs for the effects of its functions, as in Flink."""
    run = run_program(tmp_path, WITHOUT_SINKS, FLINKNET_CONFIG="cluster.toml")
    assert run.returncode == 0, run.stderr
    assert sorted(map(int, run.stdout.split())) == list(range(1_000))
