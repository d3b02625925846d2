"""``flinknet explain``: a job's memory, without starting anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flinknet.cli.explain import explain
from flinknet.errors import FlinknetError

JOB = """
from flinknet.datastream import PrintSink, StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
print("defining")
env.from_collection(range(9)).key_by(lambda number: number % 3).map(str).sink_to(PrintSink())
env.execute("numbers")
print("never reached")
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "numbers.py"
    file.write_text(JOB)
    return file


def test_memory_is_shown_and_nothing_is_run(
    job: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    explain(job)
    shown = capsys.readouterr().out
    assert shown.startswith("defining\n")
    assert "never reached" not in shown
    assert "numbers" in shown


def test_the_buffers_of_each_subtask_are_shown_on_request(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    explain(job)
    assert "overdraft" not in capsys.readouterr().out
    explain(job, verbose=True)
    assert "overdraft" in capsys.readouterr().out


def test_json_is_one_document_on_standard_output(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    explain(job, workers=2, slots=2, as_json=True)
    shown, aside = capsys.readouterr()
    assert isinstance(json.loads(shown), dict)
    assert aside == "defining\n"


def test_a_job_that_does_not_fit_the_slots_is_refused(job: Path) -> None:
    with pytest.raises(FlinknetError, match="slot"):
        explain(job, workers=1, slots=1)
