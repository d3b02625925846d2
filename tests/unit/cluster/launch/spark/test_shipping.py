"""Whether executors' flinknet fits, and an archive with which a worker runs without any."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from flinknet.cluster.launch.spark.shipping import (
    DISTRIBUTIONS,
    LIBRARIES,
    misfit,
    misfit_of_shipped,
    write_archive,
)
from flinknet.compiled_modules import COMPILED, IMPLEMENTATION
from flinknet.version import __version__

PROJECT = Path(__file__).parents[5] / "pyproject.toml"
FITS: dict[str, Any] = {
    "python": platform.python_version(),
    "platform": sysconfig.get_platform(),
    "executable": "/usr/bin/python3",
    "home": "/there",
    "version": __version__,
    "implementation": IMPLEMENTATION,
    "reason": "",
    "missing": [],
}


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({}, ""),
        ({"version": "", "home": ""}, "/usr/bin/python3 has no flinknet"),
        ({"version": "", "home": "/x.zip"}, "/x.zip is an archive, .* plain Python"),
        ({"version": "0.0.9"}, f"flinknet is 0.0.9 there and {__version__} in the program"),
        ({"missing": ["msgpack", "aiohttp"]}, "/usr/bin/python3 lacks msgpack, aiohttp"),
    ],
)
def test_a_flinknet_that_does_not_fit_is_told_with_both_sides(
    found: dict[str, Any], reason: str
) -> None:
    assert re.fullmatch(reason, misfit({**FITS, **found}))


@pytest.mark.skipif(not COMPILED, reason="it runs as plain Python here")
def test_plain_python_is_refused_for_a_program_with_compiled_modules() -> None:
    found = {**FITS, "implementation": "pure", "reason": "not compiled for this interpreter"}
    assert "would run as plain Python (not compiled for this interpreter)" in misfit(found)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({}, ""),
        ({"python": "3.9.2"}, "Python is 3.9.2 there and 3."),
        ({"platform": "win-amd64"}, "the platform is win-amd64 there and "),
    ],
)
def test_the_shipped_package_fits_the_same_python_and_platform(
    found: dict[str, Any], reason: str
) -> None:
    assert misfit_of_shipped({**FITS, **found}).startswith(reason)


def test_all_dependencies_are_shipped() -> None:
    declared = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    names = [re.match(r"[\w-]+", one) for one in declared]
    assert sorted(DISTRIBUTIONS) == sorted(name[0] for name in names if name)


def test_a_worker_runs_with_the_shipped_packages_alone(tmp_path: Path) -> None:
    write_archive(tmp_path / "flinknet.zip")
    with zipfile.ZipFile(tmp_path / "flinknet.zip") as archive:
        archive.extractall(tmp_path / "there")
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'there')!r})\n"
        "import flinknet.cluster.worker.worker, flinknet.compiled_modules as compiled, uvloop\n"
        "print(compiled.IMPLEMENTATION)\n"
        f"for name in {LIBRARIES}: __import__(name)\n"
    )
    # Neither site-packages nor the sources are on its path.
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.stdout.strip(), ended.stderr) == (IMPLEMENTATION, "")
