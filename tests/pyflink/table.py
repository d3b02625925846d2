"""The table of PyFlink's API in the documentation, from the listing and the differences.

    python -m tests.pyflink.table

writes ``docs/reference/pyflink.md``; a test fails when it is out of date.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from flinknet.compatibility.pyflink_differences import (
    ALL_OF_IT,
    DIFFERENCES,
    MODULES,
    VALUE_DIFFERENCES,
)
from tests.pyflink.listing import Api, Methods, read_api

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "pyflink.md"

_HEAD = """\
# PyFlink API compatibility

This page compares the DataStream API of PyFlink {version} with flinknet, method by method. A
program that uses only names marked *here* runs after `pyflink` is replaced by `flinknet` in its
import lines. The modules have PyFlink's names. `flinknet.common` also has the names of all modules
below `pyflink.common`, and `flinknet.datastream` those of all modules below `pyflink.datastream`.

- *here*: has this name and these parameters, and does the same.
- *otherwise*: exists under another name, or in another form.
- *never*: is left out. The reason follows, and is also in the error that a program gets if it
  imports or calls the name.

Of PyFlink's connectors, only those for files and number sequences exist. flinknet has sources and
sinks of its own. This page is generated from PyFlink's signatures, and a test compares it with
flinknet (`tests/pyflink`).
"""


def page(api: Api) -> str:
    """Return the text of the page."""
    lines = [_HEAD.format(version=api["version"])]
    lines += ["## Modules that are left out", "", "| | |", "|---|---|"]
    lines += [f"| `{module}` | {why} |" for module, why in sorted(MODULES.items())]
    lines.append("")
    for module, classes in api["modules"].items():
        lines += [f"## {module}", "", "| | | |", "|---|---|---|"]
        for name, methods in classes.items():
            lines += _rows(name, methods)
        lines.append("")
    return "\n".join(lines)


def _rows(name: str, methods: Methods) -> Iterator[str]:
    shown = f"`{name}`" if name else "functions"
    differences = DIFFERENCES.get(name, {})
    if ALL_OF_IT in differences:
        names = ", ".join(f"`{method}`" for method in methods)
        yield f"| {shown} | {names} | {differences[ALL_OF_IT]} |"
        return
    here = [method for method in methods if method not in differences]
    if here or not methods:
        calls = ", ".join(f"`{method}({_parameters(methods, method)})`" for method in here)
        yield f"| {shown} | {calls} | here |"
    for method, why in differences.items():
        yield f"| {shown} | `{method}({_parameters(methods, method)})` | {why} |"
    for member, why in VALUE_DIFFERENCES.get(name, {}).items():
        yield f"| {shown} | `{member}` | {why} |"


def _parameters(methods: Methods, method: str) -> str:
    return ", ".join(name + "=…" * optional for name, optional in methods[method])


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(read_api()), encoding="utf-8")
