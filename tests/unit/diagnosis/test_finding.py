"""The parts of a finding."""

from __future__ import annotations

import re
from pathlib import Path

from flinknet.diagnosis.finding import FindingKind, TaskName, Throughput
from tests.unit.diagnosis.jobs import Job, pipeline

DOCS = Path(__file__).parents[3] / "docs"


def test_a_task_is_named_for_people_and_for_flinks_clients() -> None:
    assert TaskName.of(pipeline(1, 2), (1, 1)) == (1, f"{1:032x}", 1, "Sink (2/2)")


def test_throughputs_add_up() -> None:
    job = Job(pipeline(2)).task(0, 0, records=(10, 20)).task(0, 1, records=(30, 40))
    assert Throughput.of(list(job.readings().tasks.values())) == (4.0, 6.0, 40.0, 60.0)
    assert Throughput.of([]) == (0, 0, 0, 0)


def test_the_documentation_says_what_to_do_about_each_kind() -> None:
    page = (DOCS / "how-to" / "slow-jobs.md").read_text()
    told = re.findall(r"^\| `([A-Z_]+)` \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)
    assert sorted(told) == sorted(kind.name for kind in FindingKind)
