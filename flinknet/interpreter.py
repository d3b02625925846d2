"""The interpreter that runs this: CPython, which is fast where it calls C, or PyPy, which compiles
Python while it runs.

Every place where the two are told apart asks here. CPython packs and unpacks with C libraries;
calls from PyPy into C are slow, or the library does not exist there, and the same in Python is
compiled to less than C takes in CPython.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["COMPILES_PYTHON"]

COMPILES_PYTHON: Final[bool] = sys.implementation.name == "pypy"
"""Whether Python is compiled while it runs."""
