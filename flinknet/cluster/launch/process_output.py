"""What the processes of a cluster write, line by line, and how they are called there."""

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
"""(one line of a worker's standard output: what ``print()`` of user code and print sinks wrote)"""

COORDINATOR = "coordinator"
"""The coordinator's process name; workers are called worker-0, worker-1, and so on."""

_UNDISTURBED = ("DEBUG", "INFO")
"""Levels of what is logged while all is well."""

LAUNCHER = "launcher"
"""This process's name, where it has something to say about a run."""


def output_printer(config: ClusterConfig) -> OnOutput:
    """Return what shows the workers' standard error in the form that is configured."""
    return print_json_output if config.log_format == "json" else print_output


def is_shown(process: str, line: str) -> bool:
    """Whether a line of standard error is for who runs a job: what the coordinator logs of an
    undisturbed run is not, and what is wrong is."""
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
    """Show what workers say on standard error, and what is wrong with the coordinator: the default
    of ``Cluster``."""
    if is_shown(process, line):
        print(printable(f"{process} | {line}"), file=sys.stderr, flush=True)


def print_json_output(process: str, line: str) -> None:
    """As ``print_output`` where logs are JSON: each line is one object, also one that no logger
    wrote."""
    if not is_shown(process, line):
        return
    if not line.startswith("{"):
        line = json.dumps({"process": process, "message": printable(line)})
    print(line, file=sys.stderr, flush=True)


def print_printed(line: str) -> None:
    """Print what a worker printed where this program prints: the default of ``Cluster``."""
    print(printable(line), flush=True)
