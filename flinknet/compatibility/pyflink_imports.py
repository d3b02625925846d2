"""Import hook for PyFlink's modules, both existing and missing ones.

Programs for PyFlink run if ``pyflink`` is replaced by ``flinknet`` in their imports. The finder
below is tried last, when no other finder has found the module. It creates a module from the table
of PyFlink's names. For the rest of PyFlink, Python's error would only name the module; the finder
raises the reason that the documentation gives.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["PyFlinkImports", "answer_imports"]

_PACKAGE = __name__.partition(".")[0]
_WITH_NAMES = (f"{_PACKAGE}.common", f"{_PACKAGE}.datastream")
"""Packages of PyFlink's names.

``from package import Name`` asks finders for a name that the package does not have.
"""
_CONNECTORS = f"{_PACKAGE}.datastream.connectors"
"""The package from which older programs import connectors such as FlinkKafkaConsumer."""


class PyFlinkImports:
    """Finder of the modules of PyFlink's names; raises ImportError for the rest of PyFlink.

    It has no base of ``importlib.abc``, whose import takes milliseconds of each process.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        package, _, rest = fullname.partition(".")
        if package != _PACKAGE:
            return None
        # Imported here, because most programs never need these modules.
        from flinknet.compatibility.pyflink_differences import (
            ALL_OF_IT,
            DIFFERENCES,
            MODULES,
            NO_CONNECTOR,
        )
        from flinknet.compatibility.pyflink_modules import NAMES, PyFlinkModule

        if rest in NAMES:
            return ModuleSpec(fullname, PyFlinkModule(rest))
        module = f"pyflink.{rest}"
        why = MODULES.get(module)
        if why is not None:
            # With the name of the requested module, `from flinknet import table` would replace this
            # error by one of its own.
            raise ModuleNotFoundError(f"{module} is not in flinknet, {why}", name=module)
        parent, _, name = fullname.rpartition(".")
        if parent in _WITH_NAMES:
            why = DIFFERENCES.get(name, {}).get(ALL_OF_IT)
        elif parent == _CONNECTORS and name[:1].isupper():
            why = NO_CONNECTOR
        if why is not None:
            raise ImportError(f"PyFlink's {name} is not in flinknet, {why}", name=parent)
        return None


def answer_imports() -> None:
    """Install the finder for PyFlink's modules; idempotent."""
    if not any(isinstance(finder, PyFlinkImports) for finder in sys.meta_path):
        sys.meta_path.append(PyFlinkImports())
