"""What the processes of a cluster write, line by line, and how they are called there."""

from __future__ import annotations

import sys
from collections.abc import Callable

from flinknet.texts import printable

__all__ = ["COORDINATOR", "LAUNCHER", "OnOutput", "print_output"]

OnOutput = Callable[[str, str], None]
"""(process name, one line that it wrote)"""

COORDINATOR = "coordinator"
"""The coordinator's process name; workers are called worker-0, worker-1, and so on."""

LAUNCHER = "launcher"
"""This process's name, where it has something to say about a run."""


def print_output(process: str, line: str) -> None:
    """Show what workers print, and nothing of the coordinator: the default of ``LocalCluster``."""
    if process != COORDINATOR:
        print(printable(f"{process} | {line}"), file=sys.stderr, flush=True)
