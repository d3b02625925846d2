"""PyFlink's names and parameters, as in its distribution, compared with flinknet's."""

from __future__ import annotations

import importlib
import inspect
import zipfile
from pathlib import Path
from typing import Any

import pytest

from flinknet import common, datastream
from flinknet.compatibility.pyflink_differences import ALL_OF_IT, DIFFERENCES
from tests.pyflink.listing import Methods, Parameter, read_api, read_distribution
from tests.pyflink.table import PAGE, page

CLASSES: dict[str, Methods] = {
    name: methods for classes in read_api()["modules"].values() for name, methods in classes.items()
}


def own(name: str) -> Any:
    """Return flinknet's object of this name, or None."""
    first, *others = name.split(".")
    found = getattr(datastream, first, None) or getattr(common, first, None)
    for other in others:
        found = getattr(found, other, None)
    return found


@pytest.mark.parametrize("name", [name for name in CLASSES if name])
def test_a_class_has_pyflinks_methods_or_a_reason(name: str) -> None:
    differences = DIFFERENCES.get(name, {})
    found = own(name)
    if ALL_OF_IT in differences:
        assert found is None or not all(hasattr(found, method) for method in CLASSES[name])
        return
    assert found is not None
    assert set(differences) <= set(CLASSES[name])
    for method, parameters in CLASSES[name].items():
        here = takes(getattr(found, method, None), parameters)
        assert here is (method not in differences), f"{name}.{method}: here is {here}"


def takes(call: Any, parameters: list[Parameter]) -> bool:
    """Return whether it accepts the arguments of PyFlink's, by position and by name."""
    if not callable(call) or isinstance(call, property):
        return False
    signature = inspect.signature(call)
    own_parameters = [one for one in signature.parameters.values() if one.name != "self"]
    if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in own_parameters):
        return True
    positional = [
        one.name for one in own_parameters if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    wanted = [name for name, _ in parameters]
    if positional[: len(wanted)] != wanted:
        return False
    needed = {one.name for one in own_parameters if one.default is inspect.Parameter.empty}
    return needed <= {name for name, optional in parameters if not optional}


@pytest.mark.parametrize("module", read_api()["modules"])
def test_names_are_imported_from_the_module_that_pyflink_has_them_in(module: str) -> None:
    top = [name for name in read_api()["modules"][module] if "." not in name]
    here = [name for name in top if ALL_OF_IT not in DIFFERENCES.get(name, {})]
    if "" in here:
        here[here.index("") :] = read_api()["modules"][module][""]
    if here:
        found = importlib.import_module(module.replace("pyflink", "flinknet"))
        assert set(here) <= {*found.__all__}
        package = datastream if module.startswith("pyflink.datastream") else common
        assert all(getattr(found, name) is getattr(package, name) for name in here)


def test_functions_that_stand_alone_are_here() -> None:
    for name, parameters in CLASSES[""].items():
        assert takes(getattr(datastream, name), parameters), name


def test_documented_differences_exist_in_pyflink() -> None:
    assert set(DIFFERENCES) <= set(CLASSES)


def test_the_documentation_says_what_is_so() -> None:
    """Otherwise run ``python -m tests.pyflink.table``."""
    assert PAGE.read_text(encoding="utf-8") == page(read_api())


def test_the_listing_is_read_from_a_distribution(tmp_path: Path) -> None:
    files = {
        "pyflink/common/__init__.py": "__all__ = ['Time']",
        "pyflink/common/time.py": (
            "class Time:\n"
            "    class Unit:\n        def short(self): ...\n"
            "    @staticmethod\n    def days(days: int, *, exactly=True): ...\n"
            "    def to(self, unit, rounded=False): ...\n"
            "    def _own(self): ...\n"
            "class Other: ...\n"
        ),
        "pyflink/datastream/__init__.py": "__all__ = []",
        "pyflink/datastream/async_retry_predicates.py": "def empty(result): ...\ndef _not(x): ...",
    }
    wheel = tmp_path / "apache_flink-9.9.0-cp311.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, source in files.items():
            archive.writestr(name, source)
    assert read_distribution(wheel) == {
        "version": "9.9.0",
        "modules": {
            "pyflink.common.time": {
                "Time": {
                    "days": [("days", False), ("exactly", True)],
                    "to": [("unit", False), ("rounded", True)],
                },
                "Time.Unit": {"short": []},
            },
            "pyflink.datastream.async_retry_predicates": {"": {"empty": [("result", False)]}},
        },
    }
