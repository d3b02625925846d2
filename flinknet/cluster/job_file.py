"""Running a job file: a Python program whose ``execute`` calls go to an executor of ours."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from flinknet.errors import ConfigurationError
from flinknet.task.execution import Executor, set_executor

__all__ = ["run_job_file"]


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
