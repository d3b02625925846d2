"""The programs of the documentation print the output on its pages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.cluster_runs import python_run
from tests.snippets import PAGES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

PROGRAM = re.compile(
    r"```python\n(?P<program># (?P<name>\w+\.py)\n.*?)```\n(?P<behind>.*?)(?=```python|\Z)",
    re.DOTALL,
)
PRINTED = re.compile(r"```text\n(.*?)```", re.DOTALL)

SCRIPT = re.compile(r"```sh\n# (?P<host>[\w.]+)\n(?P<commands>.*?)```", re.DOTALL)
FILE = re.compile(r"```(?:toml|python)\n(?P<content># (?P<name>[\w.]+)\n.*?)```", re.DOTALL)

COMPARED = sorted(set(DOCS.rglob("*.md")) - set(PAGES))
"""``test_readme.py`` and ``test_embedding.py`` run the programs of the other pages."""
PROGRAMS = {
    f"{page.relative_to(DOCS)}:{found['name']}": found
    for page in COMPARED
    for found in PROGRAM.finditer(page.read_text())
}


def test_every_program_of_the_pages_is_run_here() -> None:
    """Every program has a name and a printed output, so that no program is left out."""
    blocks = sum(page.read_text().count("```python\n") for page in COMPARED)
    assert len(PROGRAMS) == blocks
    assert all(PRINTED.search(found["behind"]) for found in PROGRAMS.values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_print_the_output_on_the_page(tmp_path: Path, name: str) -> None:
    found = PROGRAMS[name]
    printed = PRINTED.search(found["behind"])
    assert printed is not None
    (tmp_path / found["name"]).write_text(found["program"])
    run = python_run(
        found["name"],
        cwd=tmp_path,
        FLINKNET_CLUSTER_WORKERS="1",
        PYSPARK_PYTHON=sys.executable,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == printed[1]


SCP = """#!/bin/sh
# Copies to the folder of a host, instead of to the host.
for last; do :; done
host=${last%%:*}
while [ $# -gt 1 ]; do cp "$1" "$HOSTS/$host/${last#*:}"; shift; done
"""


def test_a_cluster_over_three_hosts_starts_as_the_page_says(tmp_path: Path) -> None:
    """Each host is a folder and a loopback address.

    The scripts for "here" run in the order of the page. The hosts' scripts are started before the
    first one that needs the cluster.
    """
    page = (DOCS / "how-to" / "more-machines.md").read_text()
    network = f"127.{1 + os.getpid() // 250 % 250}.{os.getpid() % 250}"
    hosts = {f"{name}.example.org": f"{network}.{number}" for number, name in enumerate(HOSTS, 1)}
    for name, address in hosts.items():
        page = page.replace(name, address)
        (tmp_path / address).mkdir()
    here = tmp_path / "here"
    here.mkdir()
    for file in FILE.finditer(page):
        (here / file["name"]).write_text(file["content"])
    (tmp_path / "scp").write_text(SCP)
    (tmp_path / "scp").chmod(0o755)
    programs = (str(tmp_path), str(Path(sys.executable).parent), os.environ["PATH"])
    environment = {"HOSTS": str(tmp_path), "PATH": os.pathsep.join(programs)}
    environment |= {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "COLUMNS": "120"}
    scripts = [(one["host"], one["commands"]) for one in SCRIPT.finditer(page)]
    assert [host for host, _ in scripts] == ["here", "here", *hosts.values(), "here", "here"]

    def run(commands: str) -> str:
        done = subprocess.run(
            ["bash", "-ec", commands],
            cwd=here,
            env=environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    certificates, copies, *services, job, renewal = scripts
    run(certificates[1])
    run(copies[1])
    with ExitStack() as stack:
        running: list[subprocess.Popen[bytes]] = []
        for address, commands in services:
            config = tmp_path / address / "cluster.toml"
            # the address 0.0.0.0 would take the ports of the other hosts, too
            config.write_text(config.read_text().replace("0.0.0.0", address))
            *before, last = commands.strip().splitlines()
            log = stack.enter_context((tmp_path / f"{address}.log").open("w"))
            process = subprocess.Popen(
                ["bash", "-ec", "\n".join((*before, f"exec {last}"))],
                cwd=tmp_path / address,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if not running else log,
                stderr=log,
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            running.append(process)
        coordinator, *workers = running
        assert coordinator.stdout is not None
        stack.enter_context(coordinator.stdout)
        events = [json.loads(coordinator.stdout.readline())["event"] for _ in range(2)]
        assert events == ["listening", "ready"]
        printed = PRINTED.search(page)
        assert printed is not None
        assert set(printed[1].splitlines()) <= set(run(job[1]).splitlines())
        assert "worker-any.pem" in run(renewal[1])
        for process in (*workers, coordinator):
            process.terminate()
            assert process.wait(60) == 0


HOSTS = ("one", "two", "three")

SPARK = """
import threading
import flinknet.sync
from pyspark import TaskContext
from pyspark.sql import SparkSession

NAMES = "{names}"
read = []

def collect(partition):
    with flinknet.sync.open_reader(f"rows-{{partition}}", directory=NAMES) as reader:
        read.extend(reader)

readers = [threading.Thread(target=collect, args=(partition,)) for partition in range(2)]
for reader in readers:
    reader.start()
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
session.sparkContext.setLogLevel("OFF")
frame = session.createDataFrame([(number, str(number)) for number in range(10)]).repartition(2)
{snippet}
for reader in readers:
    reader.join()
session.stop()
print(sorted(read))
"""


@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_a_spark_task_writes_as_the_page_says(tmp_path: Path) -> None:
    page = (DOCS / "how-to" / "threads.md").read_text()
    (snippet,) = re.findall(r"```\n(def send\(rows\):\n.*?)```", page, re.DOTALL)
    program = SPARK.format(names=tmp_path / "names", snippet=snippet)
    run = python_run("-c", program, cwd=tmp_path, PYSPARK_PYTHON=sys.executable)
    assert run.returncode == 0, run.stderr
    assert run.stdout == f"{[(number, str(number)) for number in range(10)]}\n"
