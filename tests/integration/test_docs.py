"""The documentation makes a site in which nothing is astray, and its programs run as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

PROGRAM = re.compile(
    r"```python\n(?P<program># (?P<name>\w+\.py)\n.*?)```\n(?P<behind>.*?)(?=```python|\Z)",
    re.DOTALL,
)
PRINTED = re.compile(r"```text\n(.*?)```", re.DOTALL)

PROGRAMS = {
    f"{page.relative_to(DOCS)}:{found['name']}": found
    for page in sorted(DOCS.rglob("*.md"))
    for found in PROGRAM.finditer(page.read_text())
}


def test_every_program_of_the_pages_is_run_here() -> None:
    """None is left out because it has no name, or says nothing that can be compared."""
    blocks = sum(page.read_text().count("```python\n") for page in DOCS.rglob("*.md"))
    assert len(PROGRAMS) == blocks
    assert all(PRINTED.search(found["behind"]) for found in PROGRAMS.values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_print_what_the_page_says(tmp_path: Path, name: str) -> None:
    found = PROGRAMS[name]
    printed = PRINTED.search(found["behind"])
    assert printed is not None
    (tmp_path / found["name"]).write_text(found["program"])
    run = subprocess.run(
        [sys.executable, found["name"]],
        cwd=tmp_path,
        env={
            **os.environ,
            "FLINKNET_CLUSTER_WORKERS": "1",
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == printed[1]


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
    run = subprocess.run(
        [sys.executable, "-c", SPARK.format(names=tmp_path / "names", snippet=snippet)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == f"{[(number, str(number)) for number in range(10)]}\n"


def test_the_site_is_made_and_nothing_is_astray(tmp_path: Path) -> None:
    """Strictly: a link to what is not there, or an included file that is gone, is an error."""
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    page = (tmp_path / "explanation" / "architecture" / "index.html").read_text()
    assert 'id="a-records-way"' in page
