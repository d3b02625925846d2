"""The command line of a program of this package that outlives the process which starts it.

The program imports its modules before it searches a directory of a user. ``-P`` keeps the working
directory out of its path, where a file called ``attr.py`` would replace the library.
"""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["own_program"]

_START = """\
import importlib, sys
home = sys.argv.pop(1)
sys.path[:] = [*sys.path, *(() if home in sys.path else (home,))]
sys.exit(importlib.import_module(sys.argv.pop(1)).main())
"""

_HOME = str(Path(__file__).parents[3])
"""The directory, or the archive, that contains the package."""


def own_program(module: str, *arguments: str) -> list[str]:
    """Return the command that calls ``main`` of a module of this package."""
    return [sys.executable, "-P", "-c", _START, _HOME, module, *arguments]
