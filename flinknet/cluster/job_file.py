"""Running a job file: a Python program whose ``execute`` calls go to an executor of ours."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from flinknet.errors import ConfigurationError
from flinknet.task.execution import Executor, JobResult, set_executor
from flinknet.task.graph import JobGraph

__all__ = ["first_job", "no_job", "run_job_file"]


def run_job_file(path: Path, arguments: Sequence[str], executor: Executor) -> None:
    """Run ``path`` as Python runs a script, with ``arguments``; its jobs go to ``executor``.

    The file is ``__main__`` while it runs, which makes its functions and classes travel to the
    workers by value: they need not find the file. What it imports from its own directory they do
    import, so the directory stays on the path for as long. Whatever the program raises comes out,
    SystemExit included. ConfigurationError if there is no such file.
    """
    if not path.is_file():
        raise ConfigurationError(f"there is no job file {path}")
    saved_arguments, saved_path = sys.argv, sys.path.copy()
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    set_executor(executor)
    try:
        runpy.run_path(str(path), run_name="__main__")
    finally:
        set_executor(None)
        sys.argv, sys.path[:] = saved_arguments, saved_path


def first_job(path: Path, arguments: Sequence[str]) -> JobGraph:
    """Run ``path`` up to its first ``execute`` and return the job; nothing of the job itself runs.

    ConfigurationError if the file executes none.
    """

    def take(graph: JobGraph) -> JobResult:
        raise _JobReached(graph)

    try:
        run_job_file(path, arguments, take)
    except _JobReached as reached:
        return reached.graph
    raise ConfigurationError(no_job(path))


def no_job(path: Path) -> str:
    """What to say about a job file that came to its end without a job."""
    return f"{path} executed no job: it must call execute()"


class _JobReached(BaseException):
    """Ends a job file; no Exception, so that the file does not take it for a failure of its job."""

    def __init__(self, graph: JobGraph) -> None:
        super().__init__(graph.name)
        self.graph = graph
