"""``flinknet run``: its output, its refusals, and its exit status."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flinknet.cli import main as cli
from tests.integration.cluster_runs import ONE_WORKER, PATIENCE_S, environment, flinknet_run
from tests.machine import needs_ipv6

WORD_COUNT = """
import sys
from flinknet.datastream import CollectSink, StreamExecutionEnvironment

environment = StreamExecutionEnvironment().set_parallelism(2)

def tag(word):
    if word == "loud":
        print("a worker says", word)
    return word, 1

words = environment.from_collection(sys.argv[1].split())
counts = words.map(tag).key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
counts.sink_to(CollectSink()).name("counts")
result = environment.execute("word count")
collected = result.collected["counts"]
print("collected", len(collected), max(count for _, count in collected))
"""


def job(tmp_path: Path, program: str) -> str:
    path = tmp_path / "job.py"
    path.write_text(program)
    return str(path)


def failing_job(body: str) -> str:
    """Return a job with a map function that runs ``body``, with the variable ``record``."""
    return f"""
from flinknet.datastream import StreamExecutionEnvironment

environment = StreamExecutionEnvironment().set_parallelism(2)

def work(record):
    {body}
    return "key", record

mapped = environment.from_collection(range(1000)).rebalance().map(work).name("Work")
mapped.key_by(lambda pair: pair[0]).reduce(lambda a, b: b).sink_to(lambda record: None)
environment.execute("failing")
"""


# -- successful jobs


@pytest.mark.parametrize("event_loop", ["uvloop", "asyncio"])
def test_a_job_file_runs_on_two_workers(tmp_path: Path, event_loop: str) -> None:
    path = job(tmp_path, WORD_COUNT)
    run = flinknet_run(path, "--event-loop", event_loop, "a loud b a a", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "collected 5 3" in run.stdout
    assert sorted(run.stdout.splitlines()) == ["a worker says loud", "collected 5 3"]
    assert "word count: FINISHED" in run.stderr
    assert "worker-0" in run.stderr
    assert "worker-1" in run.stderr
    assert "page: http://127.0.0.1:" in run.stderr
    assert "token" not in run.stderr, "a log must not keep it"
    assert "word count: " in run.stderr, "progress lines, as there is no terminal"


@pytest.mark.parametrize("host", ["localhost", pytest.param("::1", marks=needs_ipv6)])
def test_a_cluster_runs_at_any_name_of_this_machine(tmp_path: Path, host: str) -> None:
    """All processes connect; an IPv6 host is written in brackets in addresses."""
    (tmp_path / "cluster.toml").write_text(f"[cluster]\nhost = '{host}'\nworkers = 2\n")
    path = job(tmp_path, WORD_COUNT)
    run = flinknet_run(path, "--config", "cluster.toml", "a loud b a a", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "collected 5 3" in run.stdout


ENDLESS = """
from flinknet.datastream import GeneratorSource, StreamExecutionEnvironment

environment = StreamExecutionEnvironment()
environment.from_source(GeneratorSource(lambda number: number, count=10**12)).print()
environment.execute("endless")
"""


def test_a_job_ends_when_the_reader_of_its_output_does(tmp_path: Path) -> None:
    """``flinknet run JOB.py | head`` ends silently, as other programs do."""
    with subprocess.Popen(
        [sys.executable, "-m", "flinknet.cli", "run", job(tmp_path, ENDLESS), ONE_WORKER],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        assert run.stdout.readline() == "0\n"
        run.stdout.close()
        said = run.stderr.read()
        assert run.wait(PATIENCE_S) == 1
    assert "BrokenPipeError" not in said


def test_json_is_alone_on_standard_output(tmp_path: Path) -> None:
    path = job(tmp_path, WORD_COUNT)
    run = flinknet_run(path, ONE_WORKER, "--json", "a b a", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    (result,) = document["jobs"]
    assert document["error"] is None
    assert (result["name"], result["state"], result["workers"]) == (
        "word count",
        "FINISHED",
        ["worker-0"],
    )
    assert result["collected"] == {"counts": 3}
    assert sum(row["records_in"] for row in result["vertices"]) == 9
    assert "collected 3 2" in run.stderr


def test_options_of_the_job_file_come_after_a_double_dash(tmp_path: Path) -> None:
    path = job(tmp_path, "import sys; print('arguments', sys.argv[1:]); sys.exit(7)")
    run = flinknet_run("--workers=2", path, "one", "--", "--workers", "3", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (7, "arguments ['one', '--workers', '3']\n")


def test_unknown_options_go_to_the_job_file(tmp_path: Path) -> None:
    path = job(tmp_path, "import sys; print('arguments', sys.argv[1:]); sys.exit(7)")
    run = flinknet_run(path, "--n", "5", "--workers=2", cwd=tmp_path)
    assert (run.returncode, run.stdout) == (7, "arguments ['--n', '5']\n"), run.stderr


LOGGING_JOB = """
import logging
from flinknet.datastream import StreamExecutionEnvironment

log = logging.getLogger("mine")

def tell(number):
    log.debug("a detail of %d", number)
    return number

environment = StreamExecutionEnvironment()
environment.from_collection([7]).map(tell).sink_to(lambda number: None)
environment.execute("logging")
"""


def test_a_log_level_shows_log_lines_of_functions(tmp_path: Path) -> None:
    path = job(tmp_path, LOGGING_JOB)
    for level, is_seen in (("debug", True), ("warning", False)):
        run = flinknet_run(path, ONE_WORKER, "--log-level", level, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        assert ("DEBUG mine: a detail of 7" in run.stderr) is is_seen


def test_a_blocked_event_loop_is_no_lost_worker(tmp_path: Path) -> None:
    """The loop is blocked for seven heartbeats, well within the timeout."""
    (tmp_path / "cluster.toml").write_text(
        '[cluster]\nheartbeat_interval_ms = "100ms"\nheartbeat_timeout_ms = "20s"\n'
    )
    path = job(tmp_path, failing_job("record == 5 and __import__('time').sleep(0.7)"))
    run = flinknet_run(path, ONE_WORKER, "--config", "cluster.toml", cwd=tmp_path)
    assert run.returncode == 0, run.stderr


DEGRADED_JOB = """
import sys
from flinknet.datastream import CollectSink, StreamExecutionEnvironment

environment = StreamExecutionEnvironment().set_parallelism(4)
numbers = environment.from_collection(range(20000)).rebalance().map(lambda n: (n % 97, n))
sums = numbers.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
sums.sink_to(CollectSink()).name("sums")
collected = environment.execute("sums").collected["sums"]
last = {}
for key, total in collected:
    last[key] = max(total, last.get(key, 0))
assert last == {key: sum(range(key, 20000, 97)) for key in range(97)}
print("right")
"""


@pytest.mark.parametrize(("buffers", "limit"), [(23, 3), (17, 1)])
def test_with_the_minimum_a_job_runs_degraded_to_the_right_result(
    tmp_path: Path, buffers: int, limit: int
) -> None:
    """In the smallest memory, channels have no exclusive buffers and share a floating one."""
    (tmp_path / "cluster.toml").write_text(
        f'[network]\nsegment_bytes = "1KiB"\nnetwork_memory_bytes = "{buffers}KiB"\n'
    )
    run = flinknet_run(job(tmp_path, DEGRADED_JOB), "--config", "cluster.toml", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "right" in run.stdout
    (notice,) = [line for line in run.stderr.splitlines() if line.startswith("launcher | ")]
    assert f"an input gate reserves at most {limit} " in notice
    assert "raise network.network_memory_bytes to 2" in notice


# -- failing jobs


def test_the_error_of_a_function_is_shown_with_its_origin(tmp_path: Path) -> None:
    path = job(tmp_path, failing_job("assert record != 500, 'five hundred'"))
    run = flinknet_run(path, ONE_WORKER, "--json", cwd=tmp_path)
    assert run.returncode == 1
    assert 'flinknet: job "failing" failed: subtask "Work ' in run.stderr
    assert "five hundred" in run.stderr
    assert f'File "{path}", line 7, in work' in run.stderr, "the place in the job file"
    document = json.loads(run.stdout)
    assert document["error"]["type"] == "JobFailedError"
    (failed,) = document["jobs"]
    assert (failed["state"], failed["cause"]["gravity"]) == ("FAILED", "CAUSE")
    assert failed["cause"]["worker_id"] == "worker-0"


def test_a_record_that_cannot_be_serialised_names_operator_and_type(tmp_path: Path) -> None:
    path = job(tmp_path, failing_job("record = object()"))
    run = flinknet_run(path, ONE_WORKER, cwd=tmp_path)
    assert run.returncode == 1
    assert '"Work' in run.stderr
    assert "object" in run.stderr


def test_a_worker_that_ends_by_itself_is_named_with_its_status(tmp_path: Path) -> None:
    leave = "record == 500 and __import__('ctypes').CDLL(None)._exit(42)"
    path = job(tmp_path, failing_job(leave))
    run = flinknet_run(path, cwd=tmp_path)
    assert run.returncode == 1
    assert "was lost: exited with status 42" in run.stderr
    assert "RemoteTransportError" not in run.stderr


def test_a_function_that_would_end_its_worker_is_named_with_the_record(tmp_path: Path) -> None:
    path = job(tmp_path, failing_job("record == 500 and __import__('os')._exit(42)"))
    run = flinknet_run(path, cwd=tmp_path)
    assert run.returncode == 1
    assert 'operator "Work" (' in run.stderr
    assert " failed on a record of type int, 500: WorkerExit: os._exit(42) would" in run.stderr
    assert "was lost" not in run.stderr


def test_too_many_collected_records_are_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "cluster.toml").write_text('[cluster]\ncollect_bytes_max = "1KiB"\n')
    path = job(tmp_path, WORD_COUNT)
    run = flinknet_run(path, ONE_WORKER, "--config", "cluster.toml", "word " * 1000, cwd=tmp_path)
    assert run.returncode == 1
    assert "cluster.collect_bytes_max = 1024" in run.stderr
    assert "Parquet sink" in run.stderr


def test_an_error_of_the_job_file_itself_is_shown_as_python_does(tmp_path: Path) -> None:
    run = flinknet_run(job(tmp_path, "1 / 0"), "--json", cwd=tmp_path)
    assert run.returncode == 1
    assert run.stderr.startswith("flinknet: the job file ")
    assert run.stderr.endswith(
        "line 1, in <module>\n    1 / 0\n    ~~^~~\nZeroDivisionError: division by zero\n"
    )
    assert json.loads(run.stdout)["error"]["type"] == "JobFileError"


@pytest.mark.parametrize("program", ["x = (", "import no_such_module"])
def test_a_job_file_that_cannot_be_loaded_is_named_in_five_lines(
    tmp_path: Path, program: str
) -> None:
    run = flinknet_run(job(tmp_path, program), "--json", cwd=tmp_path)
    assert run.returncode == 1
    assert f"{tmp_path}/job.py, line 1" in run.stderr
    assert len(run.stderr.splitlines()) <= 5
    assert "Traceback" not in run.stderr
    document = json.loads(run.stdout)
    assert document["jobs"] == []
    assert f"flinknet: {document['error']['message']}\n" == run.stderr


def test_an_error_of_any_text_is_valid_and_harmless_json(tmp_path: Path) -> None:
    path = job(tmp_path, r"raise ValueError('half \ud83d \x1b[2J')")
    run = flinknet_run(path, "--json", cwd=tmp_path)
    message = json.loads(run.stdout)["error"]["message"]
    assert message.encode().endswith(rb"ValueError: half \ud83d \x1b[2J")
    assert run.stderr.endswith("ValueError: half \\ud83d \\x1b[2J\n")


PRINTS_COMMANDS = """
from flinknet.datastream import StreamExecutionEnvironment

environment = StreamExecutionEnvironment()

def fail(record):
    print("\\x1b]0;title")
    raise ValueError("half \\ud83d \\x1b[2J")

environment.from_collection(["\\x1b[31m"]).print()
environment.execute("printing")
environment.from_collection([1]).map(fail).print()
environment.execute("failing")
"""


def test_a_workers_error_and_its_records_do_not_rule_the_terminal(tmp_path: Path) -> None:
    run = flinknet_run(job(tmp_path, PRINTS_COMMANDS), ONE_WORKER, cwd=tmp_path)
    assert run.returncode == 1
    assert "\x1b" not in run.stdout + run.stderr
    assert "\\x1b[31m\n" in run.stdout
    assert "\\x1b]0;title\n" in run.stdout
    assert 'failed: operator "Map"' in run.stderr
    assert run.stderr.endswith("ValueError: half \\ud83d \\x1b[2J\n"), (
        "the traceback keeps its lines"
    )


# -- refusals before any process starts; so they run in this process

Refused = Callable[..., str]


@pytest.fixture
def refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Refused:
    """Return a function that runs a job with refused arguments, and returns the message."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, program: str = WORD_COUNT) -> str:
        with pytest.raises(SystemExit) as exit_info:
            cli.main(["run", job(tmp_path, program), *arguments, "a b"])
        said = capsys.readouterr().err
        assert exit_info.value.code == 2, said
        assert "Traceback" not in said
        assert "worker-0 |" not in said
        return said

    return run


def test_too_few_slots_are_refused(refused: Refused) -> None:
    message = refused("--workers", "1", "--slots", "1")
    assert "needs 2 slots" in message
    assert "--workers 2" in message
    assert "--slots 2" in message


def test_too_few_buffers_are_refused(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "cluster.toml").write_text('[network]\nnetwork_memory_bytes = "64KiB"\n')
    message = refused("--config", "cluster.toml")
    assert "worker-0 needs 7 network buffers of 33024 bytes" in message
    assert "network.network_memory_bytes = 65536 holds 1: raise it to 297216 (at least" in message


@pytest.mark.parametrize("option", ["coordinator_port", "data_port"])
def test_a_port_in_use_is_refused(tmp_path: Path, refused: Refused, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (tmp_path / "cluster.toml").write_text(f"[cluster]\n{option} = {port}\n")
        message = refused("--config", "cluster.toml")
    assert f"port {port} of 127.0.0.1 cannot be used" in message
    assert f"cluster.{option}" in message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "0"], "cluster.workers is 0: that is only for `flinknet cluster start`"),
        (["--workers", "-1"], "worker processes"),
        (["--slots", "-1"], "slots_per_worker"),
        (["--event-loop", "trio"], "event-loop"),
        (["--config", "nothing.toml"], "nothing.toml"),
        (["--from-checkpoint", "nowhere"], "nowhere is not a checkpoint or savepoint"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_impossible_options_are_refused(
    refused: Refused, arguments: list[str], message: str
) -> None:
    assert message in refused(*arguments)


def test_a_function_that_cannot_travel_is_refused(refused: Refused) -> None:
    program = WORD_COUNT.replace(
        "def tag(word):", "import threading\nlock = threading.Lock()\ndef tag(word):\n    lock"
    )
    message = refused(program=program)
    assert '"Map" cannot be sent to the workers' in message


def test_a_file_without_a_job_is_refused(tmp_path: Path, refused: Refused) -> None:
    assert "executed no job" in refused(program="print('nothing to do')")
    run = flinknet_run("nothing.py", cwd=tmp_path)
    assert (run.returncode, "no job file nothing.py" in run.stderr) == (2, True)
