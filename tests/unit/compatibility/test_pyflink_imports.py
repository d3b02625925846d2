"""An import of a name that only PyFlink has raises an error with the reason and an alternative."""

from __future__ import annotations

import importlib
import importlib.util
import sys

import pytest

from flinknet import datastream
from flinknet.compatibility.pyflink_differences import ALL_OF_IT, DIFFERENCES, MODULES
from flinknet.compatibility.pyflink_imports import PyFlinkImports, answer_imports
from tests.pyflink.listing import read_api

LISTED = read_api()["modules"]


@pytest.mark.parametrize("module", sorted({*MODULES, *LISTED}))
def test_a_module_of_pyflink_is_here_or_says_why(module: str) -> None:
    """The modules come from the table of the documentation, which has all of PyFlink's modules."""
    own = module.replace("pyflink", "flinknet", 1)
    if module not in MODULES:
        assert importlib.import_module(own).__name__ == own
        return
    with pytest.raises(ModuleNotFoundError) as refused:
        importlib.import_module(own)
    assert str(refused.value) == f"{module} is not in flinknet, {MODULES[module]}"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (place, name)
        for module, names in LISTED.items()
        if module not in MODULES
        for name in names
        if ALL_OF_IT in DIFFERENCES.get(name, {}) and not hasattr(datastream, name)
        if "." not in name
        for place in (module, module.rpartition(".")[0] if module.count(".") == 2 else module)
    ],
)
def test_a_class_that_is_not_here_says_why_when_it_is_imported(module: str, name: str) -> None:
    """This holds for imports from PyFlink's module and from the package that exports it."""
    with pytest.raises(ImportError) as refused:
        exec(f"from {module.replace('pyflink', 'flinknet', 1)} import {name}", {})  # noqa: S102 - an import line
    why = DIFFERENCES[name][ALL_OF_IT]
    assert str(refused.value) == f"PyFlink's {name} is not in flinknet, {why}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("from flinknet import table", "^pyflink.table is not in flinknet, never"),
        ("import flinknet.table.udf", "^pyflink.table is not in flinknet, never"),
        ("from flinknet.datastream.connectors import FlinkKafkaConsumer", "no connectors"),
        ("from flinknet.datastream.formats.json import JsonRowSchema", "JsonLinesSource"),
        ("from flinknet.datastream import DataStraem", "cannot import name 'DataStraem'"),
        ("from flinknet.datastream.window import Windw", "cannot import name 'Windw'"),
        ("import flinknet.nothing", "No module named 'flinknet.nothing'"),
        ("import nothing_at_all.table", "No module named 'nothing_at_all'"),
    ],
)
def test_what_an_import_line_says(line: str, message: str) -> None:
    with pytest.raises(ImportError, match=message):
        exec(line, {})  # noqa: S102 - an import line


def test_what_is_not_here_is_no_attribute_of_a_package() -> None:
    """Programs may test for the name with ``hasattr``."""
    assert not hasattr(datastream, "SourceFunction")
    assert not hasattr(importlib.import_module("flinknet.datastream.window"), "Windw")
    assert importlib.util.find_spec("flinknet.nothing") is None


def test_imports_are_explained_once() -> None:
    before = list(sys.meta_path)
    answer_imports()
    assert sys.meta_path == before
    assert sum(isinstance(finder, PyFlinkImports) for finder in sys.meta_path) == 1
