"""The modules of a program's own directory, which workers on other machines cannot import.

They are the modules imported from beside the program or from below its directory. Modules of the
interpreter and of installed distributions are excluded, because every worker has them. Compiled
modules are excluded, because they cannot be sent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

__all__ = ["program_modules"]

_INSTALLED = {"site-packages", "dist-packages"}
_PACKAGE = __name__.partition(".")[0]


def program_modules() -> Iterator[ModuleType]:
    """Yield such modules that are imported now, for the program that runs as ``__main__``."""
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    directory = Path.cwd() if program is None else Path(program).resolve().parent
    prefixes = [
        prefix
        for prefix in (sys.prefix, sys.base_prefix)
        if not directory.is_relative_to(Path(prefix).resolve())
    ]
    not_program = {Path(prefix).resolve() for prefix in prefixes}
    installed = tuple(f"{prefix}{os.sep}" for prefix in prefixes)
    for name, module in list(sys.modules.items()):
        # The program's own file is pickled by value anyway, and every worker has flinknet.
        if name == "__main__" or name.partition(".")[0] == _PACKAGE:
            continue
        file = _file(module)
        # Most modules are installed. Skip them here, because resolving the links in hundreds of
        # paths takes long.
        if file is None or file.startswith(installed):
            continue
        place = Path(file).resolve()
        if not place.is_relative_to(directory):
            continue
        below = place.relative_to(directory)
        if _INSTALLED.isdisjoint(below.parts) and not any(map(place.is_relative_to, not_program)):
            yield module


def _file(module: ModuleType) -> str | None:
    """Return the Python file of a module, or the directory of a package without a file."""
    file: str | None = getattr(module, "__file__", None)
    if file is None:
        return next(iter(getattr(module, "__path__", ())), None)
    return file if file.endswith(".py") else None
