"""The stubs of modules that have PyFlink's names alone, for type checkers.

    python -m tests.pyflink.stubs

writes them beside the packages whose modules they are; a test says when that is to be done.
"""

from __future__ import annotations

from pathlib import Path

from flinknet.compatibility.pyflink_modules import NAMES, package_of

__all__ = ["stubs"]

_PACKAGE = Path(__file__).parents[2] / "flinknet"
_LINE_CHARS_MAX = 100
"""As the linter has it."""


def stubs() -> dict[Path, str]:
    """Return the text of each stub."""
    return {
        _PACKAGE.joinpath(*module.split(".")).with_suffix(".pyi"): _stub(module, names.split())
        for module, names in NAMES.items()
    }


def _stub(module: str, names: list[str]) -> str:
    return "".join(_line(package_of(module), name) for name in sorted(names, key=str.lower))


def _line(package: str, name: str) -> str:
    """Return the import of a name that the module hands on: it is imported as itself."""
    line = f"from {package} import {name} as {name}\n"
    if len(line) <= _LINE_CHARS_MAX:
        return line
    return f"from {package} import (\n    {name} as {name},\n)\n"


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text, encoding="utf-8")
