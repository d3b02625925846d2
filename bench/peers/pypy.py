"""flinknet run by PyPy, which compiles Python as Java's machine compiles Java.

It runs for 18 s before it is measured, as Flink runs until its compilers rest: after 6 s awaited
tuples were 12 M/s, and 13 as a job; after 18 s 14 and 16.
"""

from __future__ import annotations

import os
from shutil import which

from bench.errors import UnavailableError
from bench.peers.interpreter import PROJECT, Interpreter
from flinknet.config import ClusterConfig

__all__ = ["PYPY"]

ENVIRONMENT = PROJECT / ".venv-pypy" / "bin" / "python"
VARIABLE = "BENCH_PYPY"
"""Names another interpreter."""

HOW_TO_GET_IT = (
    f"make .venv-pypy PYPY=/path/to/pypy3 (PyPy 3.11, 7.3.18 or newer), or set {VARIABLE} to the "
    f"Python of an environment that has flinknet's libraries"
)

NURSERY = "PYPY_GC_NURSERY"
"""A local cluster says it to its workers; a program that embeds flinknet has to say it itself."""

DESCRIBE = """
import sys, flinknet
version = ".".join(map(str, sys.pypy_version_info[:3]))
print(f"flinknet {flinknet.__version__}, PyPy {version}, Python {sys.version.split()[0]}")
"""


def find_pypy() -> str:
    """Return the path of PyPy. Raises UnavailableError."""
    found = os.environ.get(VARIABLE) or (
        str(ENVIRONMENT) if ENVIRONMENT.exists() else which("pypy3")
    )
    if not found:
        raise UnavailableError(f"there is no PyPy here: {HOW_TO_GET_IT}")
    return found


PYPY = Interpreter(
    name="pypy",
    find=find_pypy,
    describe=DESCRIBE,
    how_to_get_it=HOW_TO_GET_IT,
    environment={NURSERY: os.environ.get(NURSERY, str(ClusterConfig().pypy_nursery_bytes))},
    event_loop="asyncio",
    warm_up_s=18.0,
)
