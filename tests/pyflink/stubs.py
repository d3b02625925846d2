"""Stubs for type checkers of the modules under PyFlink's names.

    python -m tests.pyflink.stubs

writes them beside the packages; a test fails when they are out of date.
"""

from __future__ import annotations

from pathlib import Path

from flinknet.compatibility.pyflink_modules import NAMES, package_of

__all__ = ["stubs"]

_PACKAGE = Path(__file__).parents[2] / "flinknet"
_LINE_CHARS_MAX = 100
"""The line length of the linter."""


def stubs() -> dict[Path, str]:
    """Return the text of each stub by path."""
    return {
        _PACKAGE.joinpath(*module.split(".")).with_suffix(".pyi"): _stub(module, names.split())
        for module, names in NAMES.items()
    }


def _stub(module: str, names: list[str]) -> str:
    return "".join(_line(package_of(module), name) for name in sorted(names, key=str.lower))


def _line(package: str, name: str) -> str:
    """Return the re-export of a name, which type checkers expect in the form "name as name"."""
    line = f"from {package} import {name} as {name}\n"
    if len(line) <= _LINE_CHARS_MAX:
        return line
    return f"from {package} import (\n    {name} as {name},\n)\n"


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
