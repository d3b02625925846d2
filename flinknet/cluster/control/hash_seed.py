"""One hash seed for all processes of a cluster, so that ``hash(text)`` agrees between them.

Python salts the hash of text and bytes with a random seed per process. A key selector or
partitioner that calls ``hash`` would send one key to several subtasks, and to different ones after
a restart. The seed can only be set in the environment, before an interpreter starts. The launcher
does so for its children, and a process that was started by hand replaces itself by one with the
seed. The coordinator compares the hash of a text with that of each worker that joins.

The seed is a setting (``cluster.hash_seed``) with a fixed default. It stays the same when a worker
is replaced, when the coordinator restarts, and when a job continues from a savepoint in another
cluster. Spark fixes the seed of its executors to 0 for the same reason.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

__all__ = ["SEED_VARIABLE", "restart_with_seed", "text_hash"]

SEED_VARIABLE = "PYTHONHASHSEED"
"""The variable from which Python reads the seed at start."""


def text_hash() -> int:
    """Return the hash of a fixed text in this process; equal seeds give equal hashes."""
    return hash("flinknet")


def restart_with_seed(seed: int, variables: Mapping[str, str]) -> None:
    """Replace this process by the same program with that seed, unless it has the seed already.

    ``variables`` are added to the environment. The process id and open standard streams stay. An
    interpreter that ignores its environment (``-E``, ``-I``) is not replaced a second time; the
    coordinator refuses it, because its hashes differ.
    """
    if os.environ.get(SEED_VARIABLE) != str(seed):
        environment = {**os.environ, **variables, SEED_VARIABLE: str(seed)}
        os.execve(sys.executable, sys.orig_argv, environment)
