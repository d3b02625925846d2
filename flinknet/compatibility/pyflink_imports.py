"""Reasons for imports that fail because PyFlink has a module or a name that flinknet has not.

Programs for PyFlink run when ``pyflink`` is ``flinknet`` in their import lines. Where that finds
nothing, Python's own error names the module and no more. The finder below is asked last, when no
other has found the module, and gives the reason that the documentation gives.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

__all__ = ["PyFlinkImports", "explain_imports"]

_PACKAGE = __name__.partition(".")[0]
_WITH_NAMES = (f"{_PACKAGE}.common", f"{_PACKAGE}.datastream")
"""Packages of PyFlink's names: ``from package import Name`` asks finders for a name that the
package has not."""
_CONNECTORS = f"{_PACKAGE}.datastream.connectors"
"""The package from which older programs import FlinkKafkaConsumer and the like."""


class PyFlinkImports(MetaPathFinder):
    """Finds nothing; raises ImportError for what is PyFlink's."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """See MetaPathFinder."""
        package, _, rest = fullname.partition(".")
        if package != _PACKAGE:
            return
        # Now, because most programs never come here.
        from flinknet.compatibility.pyflink_differences import (
            ALL_OF_IT,
            DIFFERENCES,
            MODULES,
            NO_CONNECTOR,
        )

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


def explain_imports() -> None:
    """Explain failed imports from now on."""
    if not any(isinstance(finder, PyFlinkImports) for finder in sys.meta_path):
        sys.meta_path.append(PyFlinkImports())
