"""flinknet run by this interpreter as plain Python, whatever is compiled."""

from __future__ import annotations

import sys

from bench.errors import UnavailableError
from bench.peers.interpreter import Interpreter
from flinknet.compiled_modules import COMPILED, PURE_VARIABLE

__all__ = ["PURE"]

DESCRIBE = """
import sys, flinknet
from flinknet.compiled_modules import IMPLEMENTATION
print(f"flinknet {flinknet.__version__} {IMPLEMENTATION}, Python {sys.version.split()[0]}")
"""

HOW_TO_GET_IT = "it is the one that runs this"


def find_this() -> str:
    """Return this interpreter. Raises UnavailableError where all of flinknet is plain Python."""
    if not COMPILED:
        raise UnavailableError("nothing is compiled, so that the other rows are of plain Python")
    return sys.executable


PURE = Interpreter(
    name="pure",
    find=find_this,
    describe=DESCRIBE,
    how_to_get_it=HOW_TO_GET_IT,
    environment={PURE_VARIABLE: "1"},
    event_loop="uvloop",
)
