"""The process in which instructions are counted: makes a workload, and runs it or not."""

from __future__ import annotations

import sys

from bench.micro.steps import find_workload

__all__ = ["main"]


def main(step: str, variant: str, operations: str, mode: str) -> None:
    """Make a workload, run it if the mode is ``run``, and print its number of operations."""
    workload = find_workload(step, variant)(int(operations))
    if mode == "run":
        workload.run()
    print(workload.operations)


if __name__ == "__main__":
    main(*sys.argv[1:])
