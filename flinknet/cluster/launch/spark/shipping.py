"""Shipping of the program's own flinknet to executors: the check of theirs, and the archive.

An archive has the package with its compiled modules, and the required libraries of this
interpreter. Executors unpack it, because flinknet imported from an archive would run as plain
Python and much slower. Compiled modules fit the same version of Python on the same platform.
"""

from __future__ import annotations

import os
import platform
import re
import sysconfig
import zipfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from flinknet.cluster.launch.local.children import HOME
from flinknet.compiled_modules import COMPILED, EXTENSION_SUFFIX, IMPLEMENTATION
from flinknet.errors import ConfigurationError
from flinknet.version import __version__

__all__ = ["DISTRIBUTIONS", "LIBRARIES", "misfit", "misfit_of_shipped", "write_archive"]

LIBRARIES = [
    "aiohttp",
    "cloudpickle",
    "google_crc32c",
    "h11",
    "msgpack",
    "ormsgpack",
    "prometheus_client",
]
"""Modules that every worker requires."""

DISTRIBUTIONS = (
    "aiohttp",
    "cloudpickle",
    "google-crc32c",
    "h11",
    "msgpack",
    "ormsgpack",
    "prometheus-client",
    "rich",
    "typer",
    "uvloop",
)
"""The dependencies of flinknet; each is shipped with its own dependencies."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")


def misfit(found: Mapping[str, Any]) -> str:
    """Return why workers cannot run with the flinknet of a task; empty if they can."""
    if not found["version"]:
        if found["home"]:
            return f"{found['home']} is an archive, from which flinknet would run as plain Python"
        return f"{found['executable']} has no flinknet"
    if found["version"] != __version__:
        return f"flinknet is {found['version']} there and {__version__} in the program"
    if COMPILED and found["implementation"] != IMPLEMENTATION:
        return (
            f"flinknet in {found['home']} would run as plain Python ({found['reason']}), while the "
            "program has it compiled"
        )
    if found["missing"]:
        return f"{found['executable']} lacks {', '.join(found['missing'])}"
    return ""


def misfit_of_shipped(found: Mapping[str, Any]) -> str:
    """Return why a shipped archive could not run in a task with these facts; empty if it can."""
    here, there = platform.python_version_tuple()[:2], found["python"].split(".")[:2]
    if list(here) != there:
        return f"Python is {found['python']} there and {platform.python_version()} in the program"
    if found["platform"] != sysconfig.get_platform():
        return f"the platform is {found['platform']} there and {sysconfig.get_platform()} here"
    return ""


def write_archive(path: Path) -> None:
    """Write an archive of flinknet and its dependencies."""
    package = Path(HOME, "flinknet")
    if not package.is_dir():
        raise ConfigurationError(
            f"flinknet cannot be shipped to Spark's executors from {HOME}, which is an archive: "
            "install it in a directory"
        )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in _files_of_package(package):
            archive.write(file, file.relative_to(HOME))
        written = set(archive.namelist())
        for name, file in _files_of_libraries():
            if name not in written:
                written.add(name)
                archive.write(file, name)


def _files_of_package(package: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(package):
        folders[:] = sorted(one for one in folders if one != "__pycache__")
        for name in sorted(files):
            if not name.endswith(".so") or name.endswith(EXTENSION_SUFFIX):
                yield Path(folder, name)


def _files_of_libraries() -> Iterator[tuple[str, Path]]:
    waiting, seen = list(DISTRIBUTIONS), set()
    while waiting:
        name = waiting.pop()
        if name.lower() in seen:
            continue
        seen.add(name.lower())
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # a dependency of another platform or version of Python
        for needed in distribution.requires or ():
            found = _NAME.match(needed)
            if found is not None and "extra ==" not in needed:
                waiting.append(found[0])
        for file in distribution.files or ():
            place = Path(str(file.locate()))
            if ".." not in file.parts and "__pycache__" not in file.parts and place.is_file():
                yield file.as_posix(), place
