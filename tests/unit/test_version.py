"""One version, for the package and for the build tools."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import flinknet
from flinknet.version import __version__

ROOT = Path(flinknet.__path__[0]).parent


def test_the_package_has_it_and_what_builds_finds_it() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    assert flinknet.__version__ == __version__
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    source = (ROOT / settings["tool"]["hatch"]["version"]["path"]).read_text()
    assert f'__version__ = "{__version__}"' in source
