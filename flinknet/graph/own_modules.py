"""The modules of a program's own directory, which workers that run elsewhere cannot import.

They are those that are imported from beside the program, or from below its directory: not the
interpreter's own, nor those of an installed distribution, which every worker has, too; nor compiled
ones, which cannot travel.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

__all__ = ["own_modules"]

_INSTALLED = {"site-packages", "dist-packages"}
_PACKAGE = __name__.partition(".")[0]


def own_modules() -> Iterator[ModuleType]:
    """Find those that are imported now, of the program that runs as ``__main__``."""
    program = getattr(sys.modules.get("__main__"), "__file__", None)
    directory = Path.cwd() if program is None else Path(program).resolve().parent
    prefixes = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    not_own = {one for one in prefixes if not directory.is_relative_to(one)}
    for name, module in list(sys.modules.items()):
        if name == "__main__" or name.partition(".")[0] == _PACKAGE:
            continue
        place = _place(module)
        if place is None or not place.is_relative_to(directory):
            continue
        below = place.relative_to(directory)
        if _INSTALLED.isdisjoint(below.parts) and not any(map(place.is_relative_to, not_own)):
            yield module


def _place(module: ModuleType) -> Path | None:
    """Return the file of Python code that a module is; of a package without one, its directory."""
    file = getattr(module, "__file__", None)
    if file is None:
        paths = list(getattr(module, "__path__", ()))
        file = paths[0] if paths else None
        return None if file is None else Path(file).resolve()
    return Path(file).resolve() if file.endswith(".py") else None
