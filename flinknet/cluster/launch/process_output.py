"""The output of a cluster's processes, line by line, and the names of the processes in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from flinknet.config import ClusterConfig
from flinknet.texts import printable

__all__ = [
    "COORDINATOR",
    "LAUNCHER",
    "OnOutput",
    "OnPrinted",
    "is_shown",
    "output_printer",
    "print_json_output",
    "print_output",
    "print_printed",
]

OnOutput = Callable[[str, str], None]
"""(process name, one line of its standard error)"""

OnPrinted = Callable[[str], None]
"""(one line of a worker's standard output, written by ``print()`` of user code or a print sink)"""

COORDINATOR = "coordinator"
"""The coordinator's process name; workers are called worker-0, worker-1, and so on."""

_UNDISTURBED = ("DEBUG", "INFO")
"""Log levels of a run without problems."""

LAUNCHER = "launcher"
"""The name of this process for messages about a run."""


def output_printer(config: ClusterConfig) -> OnOutput:
    """Return the function that prints the processes' standard error in the configured form."""
    return print_json_output if config.log_format == "json" else print_output


def is_shown(process: str, line: str) -> bool:
    """Return whether a line of standard error is for the user of a job.

    The coordinator's lines below WARNING are not.
    """
    if process != COORDINATOR:
        return True
    if not line.startswith("{"):
        return not line.startswith(_UNDISTURBED)
    try:
        logged = json.loads(line)
    except ValueError:
        return True
    return logged.get("level") not in _UNDISTURBED


def print_output(process: str, line: str) -> None:
    """Print the workers' standard error, and problems of the coordinator.

    This is the default of ``Cluster``.
    """
    if is_shown(process, line):
        print(printable(f"{process} | {line}"), file=sys.stderr, flush=True)


def print_json_output(process: str, line: str) -> None:
    """Print as ``print_output`` does, but as JSON.

    Each line is one object, even if no logger wrote it.
    """
    if not is_shown(process, line):
        return
    if not line.startswith("{"):
        line = json.dumps({"process": process, "message": printable(line)})
    print(line, file=sys.stderr, flush=True)


def print_printed(line: str) -> None:
    """Print a line of a worker on this program's standard output: the default of ``Cluster``."""
    print(printable(line), flush=True)
