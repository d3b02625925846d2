"""A job file runs as a script does, and its jobs go to the executor."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flinknet.cli.job_file import first_job, run_job_file
from flinknet.cluster.control.job_result import JobResult
from flinknet.cluster.launch.job_control import JobControl
from flinknet.datastream.executor import execute
from flinknet.errors import ConfigurationError, JobFileError
from flinknet.graph.graph import JobGraph
from tests.unit.cluster.graphs import keyed_graph

JOB = """
import sys
from flinknet.datastream import StreamExecutionEnvironment
from beside import label

def tag(record):
    return label, record

environment = StreamExecutionEnvironment()
environment.from_collection([1]).map(tag).print()
assert __name__ == "__main__"
result = environment.execute(sys.argv[1])
print("file", sys.argv[0])
print("result", result.state)
"""


class Executor:
    """Keeps the serialized graphs."""

    def __init__(self) -> None:
        self.graphs: list[bytes] = []

    def __call__(self, graph: JobGraph, control: JobControl | None) -> JobResult:
        self.graphs.append(graph.to_bytes())
        return JobResult("id", graph.name, "FINISHED", 1.0, (), (), {})


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("label = 'from a module beside the job'\n")
    path = tmp_path / "job.py"
    path.write_text(JOB)
    return path


def test_the_executor_gets_the_jobs_and_the_file_its_arguments(
    job_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, path = sys.argv.copy(), sys.path.copy()
    executor = Executor()
    run_job_file(job_file, ["flights", "--scale=3"], executor)
    assert capsys.readouterr().out == f"file {job_file}\nresult FINISHED\n"
    assert len(executor.graphs) == 1
    assert (sys.argv, sys.path) == (arguments, path)


def test_functions_of_the_file_travel_by_value(job_file: Path) -> None:
    """A worker does not have the file, so nothing in the graph may refer to its ``__main__``."""
    executor = Executor()
    run_job_file(job_file, ["flights"], executor)
    assert b"tag" in executor.graphs[0]
    graph = JobGraph.from_bytes(executor.graphs[0])
    assert graph.name == "flights"
    assert not hasattr(sys.modules["__main__"], "tag")
    sys.modules.pop("beside", None)


@pytest.fixture
def wrong_file(job_file: Path) -> Path:
    job_file.write_text("raise ZeroDivisionError('in the file')")
    return job_file


async def test_an_error_of_the_file_comes_out_and_the_executor_goes(wrong_file: Path) -> None:
    executor = Executor()
    with pytest.raises(JobFileError, match="in the file") as raised:
        run_job_file(wrong_file, [], executor)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(ConfigurationError, match="running event loop"):
        execute(keyed_graph())  # no executor: an embedded cluster, which needs no loop
    assert not executor.graphs


def said_of(job_file: Path, program: bytes) -> list[str]:
    job_file.write_bytes(program)
    with pytest.raises(JobFileError) as raised:
        run_job_file(job_file, [], Executor())
    lines = str(raised.value).splitlines()
    assert max(map(len, lines)) < 400
    return lines


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (b"x = (1,\n", ["cannot be run: SyntaxError: '(' was never closed", "job.py, line 1"]),
        (b"\n\xff = 1\n", ["cannot be run: SyntaxError: (unicode error)", "job.py, line"]),
        (b"x = '\0'\n", ["null bytes"]),
        (b"  x\n", ["cannot be run: IndentationError: unexpected indent", "job.py, line 1"]),
        (
            b"\nimport no_such_module\n",
            [
                "cannot be run: ModuleNotFoundError: No module named 'no_such_module'",
                "job.py, line 2: import no_such_module",
            ],
        ),
        (
            b"from beside import labels\n",
            ["cannot be run: ImportError: cannot import name 'labels'", "job.py, line 1: from"],
        ),
        (
            b"1\nimport wrong\n",
            [
                "cannot be run: SyntaxError: invalid syntax",
                "wrong.py, line 2",
                "job.py, line 2: import wrong",
            ],
        ),
        (
            b"import longing\n",
            [
                "cannot be run: ModuleNotFoundError: No module named 'no_such_module'",
                "longing.py, line 1: import no_such_module",
                "job.py, line 1: import longing",
            ],
        ),
        (b"import x" + 1000 * b"y", ["cannot be run: ModuleNotFoundError"]),
    ],
    ids=["syntax", "encoding", "null", "indent", "module", "name", "nested", "absent", "long"],
)
def test_a_file_that_cannot_be_loaded_is_named_in_five_lines(
    job_file: Path, program: bytes, said: list[str]
) -> None:
    """The error names the place, the line and the cause, without flinknet's own frames."""
    (job_file.parent / "wrong.py").write_text("\nhere there\n")
    (job_file.parent / "longing.py").write_text("import no_such_module\n")
    lines = said_of(job_file, program)
    for part in said:
        assert any(part in line for line in lines), lines
    assert len(lines) <= 5
    assert "flinknet" not in "".join(lines)
    assert str(job_file) in lines[0]


def test_the_traceback_of_a_file_begins_in_the_file(job_file: Path) -> None:
    lines = said_of(job_file, b"def divide():\n    return 1 / 0\n\ndivide()\n")
    assert lines[1:4] == [
        "Traceback (most recent call last):",
        f'  File "{job_file}", line 4, in <module>',
        "    divide()",
    ]
    assert lines[-1] == "ZeroDivisionError: division by zero"


def test_the_exit_of_the_file_comes_out(job_file: Path) -> None:
    job_file.write_text("import sys; sys.exit(5)")
    with pytest.raises(SystemExit) as raised:
        run_job_file(job_file, [], Executor())
    assert raised.value.code == 5


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no job file"):
        run_job_file(tmp_path / "nothing.py", [], Executor())


# -- up to the first job


def test_the_first_job_ends_the_file(job_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """This includes a file that catches every Exception of a job."""
    job_file.write_text(
        "from flinknet.datastream import StreamExecutionEnvironment\n"
        "environment = StreamExecutionEnvironment()\n"
        "environment.from_collection([]).print()\n"
        "try:\n"
        "    environment.execute('first')\n"
        "except Exception:\n"
        "    print('caught')\n"
        "environment.execute('second')\n"
    )
    assert first_job(job_file, []).name == "first"
    assert capsys.readouterr().out == ""


def test_a_file_that_ends_without_a_job_is_refused(job_file: Path) -> None:
    job_file.write_text("print('nothing to do')")
    with pytest.raises(ConfigurationError, match=r"job\.py executed no job"):
        first_job(job_file, [])
