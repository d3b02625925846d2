"""Running a job file: a Python program whose ``execute`` calls go to an executor of ours."""

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
"""Of a line of source that is shown, and of what is wrong with it."""

_NOT_LOADED = (SyntaxError, ImportError)
"""The place and a line say it all: nothing of the file has computed anything yet."""


def run_job_file(
    path: Path,
    arguments: Sequence[str],
    executor: Executor,
    config: FlinknetConfig | None = None,
) -> None:
    """Run ``path`` as Python runs a script, with ``arguments``; its jobs go to ``executor``, whose
    clusters are configured by ``config``.

    The file is ``__main__`` while it runs, which makes its functions and classes travel to the
    workers by value: they need not find the file. What it imports from its own directory they do
    import, so the directory stays on the path for as long. Raises ConfigurationError if there is no
    such file, and JobFileError for what the program itself raises; flinknet's own errors,
    SystemExit and BrokenPipeError come out as they are.
    """
    if not path.is_file():
        raise ConfigurationError(f"there is no job file {path}")
    saved_arguments, saved_path = sys.argv, sys.path.copy()
    sys.argv = [str(path), *arguments]
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
    """Run ``path`` up to its first ``execute`` and return the job; nothing of the job itself runs.

    ConfigurationError if the file executes none; JobFileError as ``run_job_file``.
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
    """What to say about a job file that came to its end without a job."""
    return f"{path} executed no job: it must call execute()"


def _described(error: Exception, path: Path) -> str:
    """What a job file raised: in a few lines if it could not be loaded, or else as Python says it,
    without what flinknet did before the file's first line."""
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
    """The part of a traceback that begins in the file; nothing if it never began to run."""
    while trace is not None and trace.tb_frame.f_code.co_filename != str(path):
        trace = trace.tb_next
    return trace


def _place(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename}, line {frame.lineno}: {_cut(frame.line)}"


def _cut(what: object) -> str:
    """The first line of a text, not too much of it."""
    if isinstance(what, SyntaxError):
        what = what.msg
    text = " ".join(str(what or "").split())
    return text if len(text) <= _LINE_CHARACTERS_MAX else text[:_LINE_CHARACTERS_MAX] + " ..."


class _JobReached(BaseException):
    """Ends a job file; no Exception, so that the file does not take it for a failure of its job."""
