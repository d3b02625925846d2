"""The choice between compiled modules and plain Python, made once for the whole package.

Two kinds of modules can be compiled ahead of time: an ``x.py`` with an ``x.pxd`` beside it, and an
``x.pyx``, which is a second version of ``x.py``, written for C where that is worth it. The result
is an extension module beside it (``hatch_build.py`` in the source tree builds it).

Python would import an extension module wherever it finds one, even if the source has changed or
only some modules are compiled. But compiled modules depend on each other's memory layout. So the
build writes a record for each interpreter, with a fingerprint of every source. This module is
imported before any other of the package and compares them. Compiled modules are used only if all of
them exist and match the present sources. Otherwise, or with FLINKNET_PURE=1 in the environment, a
finder loads every module of the package from its source.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import source_hash
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

__all__ = [
    "COMPILED",
    "EXTENSION_SUFFIX",
    "IMPLEMENTATION",
    "INTERPRETER",
    "PURE_VARIABLE",
    "REASON",
    "CompiledSources",
    "SourceFinder",
    "find_sources",
    "fingerprints",
    "reason_for_pure",
    "record_path",
]

PURE_VARIABLE: Final = "FLINKNET_PURE"
"""Variable that requests plain Python if it is 1; processes of a local cluster inherit it."""

EXTENSION_SUFFIX: Final = EXTENSION_SUFFIXES[0] if EXTENSION_SUFFIXES else ""
"""Suffix of extension modules for this interpreter; other interpreters' may lie beside them."""


class CompiledSources(NamedTuple):
    """The files of a package that matter for compilation, as relative paths with slashes."""

    modules: list[str]
    """Modules to compile: ``x.py`` with an ``x.pxd`` beside it, and ``x.pyx``."""
    plain_forms: list[str]
    """``x.py`` for every ``x.pyx``; both must be changed together."""
    declarations: list[str]
    """Every ``.pxd``, because any module may use it."""
    extensions: list[str]
    """Every extension module that this interpreter would import."""

    @property
    def sources(self) -> list[str]:
        """Files that determine the compiled modules."""
        return [*self.modules, *self.plain_forms, *self.declarations]


def find_sources(package: Path) -> CompiledSources:
    """Find these files in the directory of a package."""
    found = CompiledSources([], [], [], [])
    folders = [""]
    for folder in folders:  # The list grows during the iteration.
        with os.scandir(f"{package}/{folder}") as entries:
            names = {entry.name: entry.is_dir() for entry in entries}
        for name in sorted(names):
            stem, _, suffix = name.partition(".")
            if names[name]:
                if stem != "__pycache__":
                    folders.append(f"{folder}{name}/")
            elif suffix == "pyx":
                found.modules.append(folder + name)
                found.plain_forms.append(f"{folder}{stem}.py")
            elif suffix == "pxd":
                found.declarations.append(folder + name)
                if f"{stem}.py" in names and f"{stem}.pyx" not in names and stem != "__init__":
                    found.modules.append(f"{folder}{stem}.py")
            elif f".{suffix}" in EXTENSION_SUFFIXES:
                found.extensions.append(folder + name)
    return found


def fingerprints(package: Path, sources: Sequence[str]) -> dict[str, str]:
    """Return a hash of each source, as Python uses it to match bytecode with its source."""
    return {source: source_hash((package / source).read_bytes()).hex() for source in sources}


def record_path(package: Path) -> Path:
    """Return the path of the record of this interpreter's compiled modules."""
    return package / f"compiled_modules{EXTENSION_SUFFIX.rpartition('.')[0]}.json"


def reason_for_pure(package: Path, environ: Mapping[str, str]) -> str:
    """Return why the compiled modules of a package cannot be used; empty if they can."""
    if environ.get(PURE_VARIABLE) == "1":
        return f"{PURE_VARIABLE}=1"
    try:
        found = find_sources(package)
        if not found.modules:
            return "there is nothing to compile"
        try:
            record = record_path(package).read_bytes()
        except FileNotFoundError:
            return "not compiled for this interpreter"
        recorded: dict[str, str] = dict(json.loads(record)["sources"])
        return _difference(found, fingerprints(package, found.sources), recorded)
    except (OSError, ValueError, LookupError, TypeError) as error:
        return f"what was compiled cannot be told: {error!r}"


def _difference(
    found: CompiledSources, present: Mapping[str, str], recorded: Mapping[str, str]
) -> str:
    for source in sorted({*present, *recorded}):
        if present.get(source) != recorded.get(source):
            verb = "changed" if source in present and source in recorded else "come or gone"
            return f"flinknet/{source} has {verb} since it was compiled; run make compiled"
    expected = {module.rpartition(".")[0] + EXTENSION_SUFFIX for module in found.modules}
    for extension in sorted(expected.symmetric_difference(found.extensions)):
        what = "is missing" if extension in expected else "belongs to no source"
        return f"flinknet/{extension} {what}; run make compiled"
    return ""


class SourceFinder:
    """Finds the modules of a package by their sources and ignores extension modules."""

    def __init__(self, package: str) -> None:
        self._prefix = f"{package}."
        self._folders: dict[str, FileFinder] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        """Return the spec of a module of the package; None lets the next finder try."""
        if path is None or not fullname.startswith(self._prefix):
            return None
        for folder in path:
            finder = self._folders.get(folder)
            if finder is None:
                finder = self._folders[folder] = FileFinder(
                    folder,
                    (SourceFileLoader, SOURCE_SUFFIXES),
                    (SourcelessFileLoader, BYTECODE_SUFFIXES),
                )
            found = finder.find_spec(fullname, target)
            if found is not None:
                return found
        return None

    def invalidate_caches(self) -> None:
        """Forget cached directories; called by ``importlib.invalidate_caches``."""
        for finder in self._folders.values():
            finder.invalidate_caches()


REASON: Final = reason_for_pure(Path(__file__).parent, os.environ)
"""Why the package does not run compiled; empty if it does."""
COMPILED: Final = not REASON
IMPLEMENTATION: Final = "compiled" if COMPILED else "pure"
INTERPRETER: Final = f"{platform.python_implementation()} {platform.python_version()}"
"""Name of the interpreter and version of Python, for people."""

if not COMPILED:
    sys.meta_path.insert(0, SourceFinder("flinknet"))
