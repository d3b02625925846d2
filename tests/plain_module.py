"""The interpreted form of a module, whether or not the package runs compiled."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import flinknet

__all__ = ["plain_module"]


def plain_module(name: str) -> ModuleType:
    """Return the module, loaded from its source if it runs compiled.

    Its imports are the modules that run, compiled or not.
    """
    module = import_module(name)
    if str(module.__file__).endswith(".py"):
        return module
    plain = f"plain.{name}"
    if plain not in sys.modules:
        source = Path(flinknet.__path__[0], *name.split(".")[1:]).with_suffix(".py")
        spec = spec_from_file_location(plain, source)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[plain] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules[plain])
    return sys.modules[plain]
