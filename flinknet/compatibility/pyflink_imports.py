"""Imports of PyFlink's modules: those that have its names alone, and those that are not here.

Programs for PyFlink run when ``pyflink`` is ``flinknet`` in their import lines. The finder below is
asked last, when no other has found the module. It makes a module of the table of PyFlink's names.
For the rest of PyFlink, Python's own error would name the module and no more: the finder gives the
reason that the documentation gives.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["PyFlinkImports", "answer_imports"]

_PACKAGE = __name__.partition(".")[0]
_WITH_NAMES = (f"{_PACKAGE}.common", f"{_PACKAGE}.datastream")
"""Packages of PyFlink's names: ``from package import Name`` asks finders for a name that the
package has not."""
_CONNECTORS = f"{_PACKAGE}.datastream.connectors"
"""The package from which older programs import FlinkKafkaConsumer and the like."""


class PyFlinkImports:
    """Finds the modules of PyFlink's names; raises ImportError for the rest of PyFlink.

    It has no base of ``importlib.abc``, whose import takes milliseconds of each process.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """See importlib.abc.MetaPathFinder."""
        package, _, rest = fullname.partition(".")
        if package != _PACKAGE:
            return None
        # Now, because most programs never come here.
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
            # With the name of the module that was asked for, `from flinknet import table` would
            # drop this error for one of its own.
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
    """Answer imports of PyFlink's modules from now on."""
    if not any(isinstance(finder, PyFlinkImports) for finder in sys.meta_path):
        sys.meta_path.append(PyFlinkImports())
