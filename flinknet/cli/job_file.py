"""Running a job file: a Python program that calls ``execute``, with flinknet's executor."""

from __future__ import annotations

import runpy
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from flinknet.cluster.control.job_result import JobResult
from flinknet.cluster.launch.job_control import JobControl
from flinknet.config import FlinknetConfig
from flinknet.datastream.executor import Executor, finish_started, set_executor
from flinknet.errors import ConfigurationError, FlinknetError, JobFileError
from flinknet.graph.graph import JobGraph

__all__ = ["first_job", "no_job", "run_job_file"]

_LINE_CHARACTERS_MAX = 120
"""Maximum length of a printed line of source, and of its error message."""

_NOT_LOADED = (SyntaxError, ImportError)
"""Errors that a place and a line describe completely, because the file has not computed yet."""


def run_job_file(
    path: Path,
    arguments: Sequence[str],
    executor: Executor,
    config: FlinknetConfig | None = None,
) -> None:
    """Run ``path`` as Python runs a script, and execute its jobs with ``executor``.

    ``arguments`` go into ``sys.argv``; ``config`` is the configuration of the executor's clusters.

    The file is ``__main__`` while it runs, so its functions and classes are pickled by value, and
    workers do not need the file. Workers do import modules from the file's directory, so that
    directory is on the path while the file runs.

    Raises ConfigurationError if there is no such file, and JobFileError for exceptions of the
    program. Errors of flinknet, SystemExit and BrokenPipeError propagate unchanged.
    """
    if not path.is_file():
        raise ConfigurationError(f"there is no job file {path}")
    saved_arguments, saved_path = sys.argv, sys.path.copy()
    sys.argv = [str(path), *arguments]
    # As Python does for a script.
    sys.path.insert(0, str(path.resolve().parent))
    set_executor(executor, config)
    try:
        runpy.run_path(str(path), run_name="__main__")
        finish_started()
    except (FlinknetError, BrokenPipeError):
        raise
    except Exception as error:
        raise JobFileError(_described(error, path)) from error
    finally:
        set_executor(None)
        sys.argv, sys.path[:] = saved_arguments, saved_path


def first_job(path: Path, arguments: Sequence[str]) -> JobGraph:
    """Run ``path`` up to its first ``execute`` and return the job, without running the job.

    Raises ConfigurationError if the file executes no job, and JobFileError as ``run_job_file``.
    """

    def take(graph: JobGraph, control: JobControl | None) -> JobResult:
        reached.append(graph)
        raise _JobReached

    reached: list[JobGraph] = []
    with suppress(_JobReached):
        run_job_file(path, arguments, take)
    if not reached:
        raise ConfigurationError(no_job(path))
    return reached[0]


def no_job(path: Path) -> str:
    """Return the error message for a job file that ended without a job."""
    return f"{path} executed no job: it must call execute()"


def _described(error: Exception, path: Path) -> str:
    """Describe an exception of a job file.

    A file that could not be loaded gets a few lines. Any other exception gets Python's traceback
    from the file's first line on, without the calls of flinknet before it.
    """
    trace = _from_file_on(error.__traceback__, path)
    if not isinstance(error, _NOT_LOADED):
        shown = traceback.TracebackException(type(error), error, trace)
        return f"the job file {path} failed\n{''.join(shown.format()).rstrip()}"
    frames = [frame for frame in traceback.extract_tb(trace) if "importlib" not in frame.filename]
    lines = [f"the job file {path} cannot be run: {type(error).__name__}: {_cut(error)}"]
    if isinstance(error, SyntaxError):
        lines += [f"{error.filename}, line {error.lineno}", f"    {_cut(error.text)}"]
        importer = frames[:1]
    else:
        lines += [_place(frame) for frame in frames[-1:]]
        importer = frames[:-1][:1]
    return "\n".join(lines + [f"imported at {_place(frame)}" for frame in importer])


def _from_file_on(trace: TracebackType | None, path: Path) -> TracebackType | None:
    """Return the part of a traceback that begins in the file; None if the file never ran."""
    while trace is not None and trace.tb_frame.f_code.co_filename != str(path):
        trace = trace.tb_next
    return trace


def _place(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename}, line {frame.lineno}: {_cut(frame.line)}"


def _cut(what: object) -> str:
    """Return a text in one line, truncated to the maximum length."""
    if isinstance(what, SyntaxError):
        what = what.msg
    text = " ".join(str(what or "").split())
    return text if len(text) <= _LINE_CHARACTERS_MAX else text[:_LINE_CHARACTERS_MAX] + " ..."


class _JobReached(BaseException):
    """Ends a job file after its first job.

    It is not an Exception, so that the file does not handle it as a failure of its job.
    """
