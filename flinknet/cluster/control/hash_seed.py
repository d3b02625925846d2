"""One hash seed for all processes of a cluster, so that ``hash(text)`` is the same in each of them.

Python salts the hash of text and bytes with a random seed per process. A key selector or a
partitioner that calls ``hash`` would send one key to several subtasks, and after a restart to
another one than before. The seed can only be set before an interpreter starts, in the environment:
the launcher does so for its children, and a process that was started by hand replaces itself by one
that has it. The coordinator compares the hash of a text with that of each worker that joins.

The seed is a setting (``cluster.hash_seed``) with a fixed default, so it stays the same when a
worker is replaced, when the coordinator restarts, and when a job goes on from a savepoint in
another cluster. Spark fixes the seed of its executors to 0 for the same reason.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

__all__ = ["SEED_VARIABLE", "restart_with_seed", "text_hash"]

SEED_VARIABLE = "PYTHONHASHSEED"
"""Where Python looks for the seed when it starts."""


def text_hash() -> int:
    """Return the hash of a certain text in this process; equal seeds give equal hashes."""
    return hash("flinknet")


def restart_with_seed(seed: int, variables: Mapping[str, str]) -> None:
    """Replace this process by the same program with that seed, unless it has it.

    ``variables`` are added to the environment. The process id stays, and so do open standard
    streams. An interpreter that ignores its environment (``-E``, ``-I``) is not replaced a second
    time: the coordinator refuses it, as its hashes are others.
    """
    if os.environ.get(SEED_VARIABLE) != str(seed):
        environment = {**os.environ, **variables, SEED_VARIABLE: str(seed)}
        os.execve(sys.executable, sys.orig_argv, environment)
