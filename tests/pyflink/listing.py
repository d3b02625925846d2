"""The API of PyFlink's DataStream packages: classes, methods and parameters.

    python -m pip download --no-deps --only-binary :all: apache-flink==2.3.0
    python -m tests.pyflink.listing apache_flink-2.3.0-*.whl

The command reads PyFlink's distribution without running it, and writes ``api.json``. Tests compare
that file with flinknet and with ``docs/reference/pyflink.md``. A wheel and a source distribution
have the same files. The tests need neither PyFlink nor Java.
"""

from __future__ import annotations

import ast
import json
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any, TypedDict

__all__ = ["LISTING", "Api", "Methods", "Parameter", "read_api", "read_distribution"]

LISTING = Path(__file__).with_name("api.json")

MODULES = ("pyflink/datastream/", "pyflink/common/")
"""Folders with the definitions that the two packages export."""

FURTHER = (
    "pyflink/common/watermark_strategy.py",
    "pyflink/datastream/async_retry_strategies.py",
    "pyflink/datastream/async_retry_predicates.py",
    "pyflink/datastream/connectors/file_system.py",
    "pyflink/datastream/connectors/number_seq.py",
    "pyflink/datastream/functions.py",
    "pyflink/datastream/state.py",
    "pyflink/datastream/window.py",
)
"""Other modules that programs import from."""

Parameter = tuple[str, bool]
"""A name, and whether the parameter has a default."""


Methods = dict[str, list[Parameter]]
"""Parameters behind ``self`` by method."""


class Api(TypedDict):
    """Methods by PyFlink module and class; the functions of a module have the class name ""."""

    version: str
    modules: dict[str, dict[str, Methods]]


def read_api() -> Api:
    """Return the stored listing."""
    api: Api = json.loads(LISTING.read_text(encoding="utf-8"))
    return api


def read_distribution(path: Path) -> Api:
    """Read PyFlink's wheel or its source distribution."""
    files = _files_of(path)
    exported: set[str] = set()
    for package in MODULES:
        exported |= _exports(ast.parse(files[package + "__init__.py"]))
    modules = {}
    for name, source in sorted(files.items()):
        if name.startswith(MODULES) and "/tests/" not in name:
            tree = ast.parse(source)
            own = exported | (_exports(tree) if name in FURTHER else set())
            if classes := _module(tree, own):
                modules[name.removesuffix(".py").replace("/", ".")] = classes
    return {"version": path.name.split("-")[1].removesuffix(".tar.gz"), "modules": modules}


def _module(tree: ast.Module, exported: set[str]) -> dict[str, Methods]:
    classes: dict[str, Methods] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in exported:
            classes |= _classes_of(node, node.name)
        elif isinstance(node, ast.FunctionDef) and node.name in exported:
            classes.setdefault("", {})[node.name] = _parameters(node)
    return classes


def _files_of(path: Path) -> dict[str, str]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            names = [name for name in wheel.namelist() if name.endswith(".py")]
            return {name: wheel.read(name).decode() for name in names}
    files = {}
    with tarfile.open(path) as archive:
        for member in archive:
            opened = archive.extractfile(member) if member.name.endswith(".py") else None
            if opened is not None:
                files[member.name.split("/", 1)[1]] = opened.read().decode()
    return files


def _exports(tree: ast.Module) -> set[str]:
    """Return the names in ``__all__``, or else all public names of the module."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return set(ast.literal_eval(node.value))
    defined = (node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return {name for name in defined if not name.startswith("_")}


def _classes_of(class_: ast.ClassDef, name: str) -> dict[str, Methods]:
    """Return a class and the classes inside it."""
    classes = {name: _methods_of(class_)}
    for node in class_.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            classes |= _classes_of(node, f"{name}.{node.name}")
    return classes


def _methods_of(class_: ast.ClassDef) -> Methods:
    return {
        node.name: _parameters(node)[0 if _is_static(node) else 1 :]
        for node in class_.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
    }


def _is_static(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(getattr(decorator, "id", "") == "staticmethod" for decorator in node.decorator_list)


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[Parameter]:
    taken = node.args
    named = [*taken.posonlyargs, *taken.args]
    first_default = len(named) - len(taken.defaults)
    parameters = [(one.arg, number >= first_default) for number, one in enumerate(named)]
    for one, default in zip(taken.kwonlyargs, taken.kw_defaults, strict=True):
        parameters.append((one.arg, default is not None))
    return parameters


def main(arguments: list[str]) -> Any:
    """Write the listing of the distribution that the argument names."""
    if len(arguments) != 1:
        return "usage: python -m tests.pyflink.listing FILE, of a wheel or an sdist of apache-flink"
    api = read_distribution(Path(arguments[0]))
    LISTING.write_text(json.dumps(api, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
