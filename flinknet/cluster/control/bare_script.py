"""Commands that run a module as a script, in an interpreter with few imports."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["bare_script"]


def bare_script(module: ModuleType) -> list[str]:
    """Return a command that runs a module without the package, the environment and ``site``.

    The arguments of the script follow the command.
    """
    file = Path(str(module.__file__))
    # A package in a zip archive has no file to run.
    script = [str(file)] if file.is_file() else ["-c", inspect.getsource(module)]
    return [sys.executable, "-I", "-S", *script]
