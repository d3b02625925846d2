"""The programs that embed the exchange in the documentation, run unchanged in two processes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.free_port import free_port
from tests.snippets import BLOCKS


def snippet(name: str) -> str:
    """Return the code block that begins with ``# name``."""
    (found,) = [block for block in BLOCKS if block.startswith(f"# {name}\n")]
    return found


def write_snippets(directory: Path, *names: str) -> None:
    """Write snippets into a directory, with a free port in place of theirs."""
    port = str(free_port())
    for name in names:
        (directory / name).write_text(re.sub(r"\b7001\b", port, snippet(name)))


def run_snippet(name: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a snippet in the directory that it was written to."""
    return subprocess.run(
        [sys.executable, name],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_snippets_exchange_everything_between_two_processes(tmp_path: Path) -> None:
    """The page's producer and consumer run as printed, except for the port, and lose nothing."""
    write_snippets(tmp_path, "producer.py", "consumer.py")
    with subprocess.Popen(
        [sys.executable, tmp_path / "producer.py"], stderr=subprocess.PIPE, text=True
    ) as producer:
        consumer = run_snippet("consumer.py", tmp_path)
        assert consumer.stderr == ""
        assert consumer.stdout == "100000 readings\n"
        _, errors = producer.communicate(timeout=30)
        assert (producer.returncode, errors) == (0, "")


def test_the_consumer_may_start_first_and_names_the_producer(tmp_path: Path) -> None:
    """Processes may start in any order, as the page says.

    The consumer prints one line about its wait after some seconds, and earlier if configured.
    """
    write_snippets(tmp_path, "producer.py", "consumer.py")
    consuming = (tmp_path / "consumer.py").read_text()
    sooner = "NetworkEnvironment(config=NetworkConfig(rendezvous_notice_ms=100.0))"
    (tmp_path / "consumer.py").write_text(
        consuming.replace("NetworkEnvironment()", sooner).replace(
            "import NetworkEnvironment", "import NetworkConfig, NetworkEnvironment"
        )
    )
    with subprocess.Popen(
        [sys.executable, tmp_path / "consumer.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as consumer:
        assert consumer.stderr is not None
        line = consumer.stderr.readline()
        assert "of gate readings and 1 more: still waiting for a worker at 127.0.0.1:" in line
        producer = run_snippet("producer.py", tmp_path)
        assert (producer.returncode, producer.stderr) == (0, "")
        out, errors = consumer.communicate(timeout=30)
        assert (consumer.returncode, out, errors) == (0, "100000 readings\n", "")


def test_the_snippet_exchanges_columns(tmp_path: Path) -> None:
    """Every row arrives, and all rows of a sensor arrive at one consumer."""
    write_snippets(tmp_path, "columns.py")
    run = run_snippet("columns.py", tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    *parts, total = run.stdout.splitlines()
    assert total == "100000 rows"
    sensors = [
        int(sensor) for part in parts for sensor in re.findall(r"\d+", part.partition("sensors")[2])
    ]
    assert sorted(sensors) == list(range(100))


@pytest.mark.parametrize("is_dictionary", [False, True])
def test_the_snippet_adds_columns_up_in_a_job(tmp_path: Path, is_dictionary: bool) -> None:
    """The job runs on a local cluster with two subtasks; each file has a dictionary of its own."""
    (tmp_path / "flights").mkdir()
    cities = [["Oslo", "Rome", "Kyiv"], ["Kyiv", "Oslo", "Rome"], ["Rome", "Kyiv", "Oslo"]]
    delays_of = {"Rome": 2, "Kyiv": 3}
    for number in range(3):
        names = pa.array(cities[number] * 100)
        delays = [delays_of.get(city, number) for city in cities[number]] * 100
        city = names.dictionary_encode() if is_dictionary else names
        flights = pa.table({"city": city, "delay": delays})
        pyarrow.parquet.write_table(flights, tmp_path / "flights" / f"{number}.parquet")
    write_snippets(tmp_path, "delays.py")
    run = run_snippet("delays.py", tmp_path)
    assert run.returncode == 0, run.stderr
    totals = pyarrow.parquet.read_table(tmp_path / "delays").to_pylist()
    assert sorted((row["city"], row["delay"]) for row in totals) == [
        ("Kyiv", 900), ("Oslo", 300), ("Rome", 600),
    ]  # fmt: skip


def test_the_snippet_collects_the_metrics_of_an_environment(tmp_path: Path) -> None:
    write_snippets(tmp_path, "measured.py")
    run = run_snippet("measured.py", tmp_path)
    assert run.returncode == 0, run.stderr
    assert re.search(r"^flinknet_connections\{.*tm_id=.*\} 0\.0$", run.stdout, re.MULTILINE)
