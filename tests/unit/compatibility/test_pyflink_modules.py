"""Modules with only PyFlink's names are made from one table, like their stubs."""

from __future__ import annotations

import importlib
import pickle

import pytest

from flinknet.compatibility.pyflink_modules import NAMES, package_of
from tests.pyflink.stubs import stubs


@pytest.mark.parametrize("module", NAMES)
def test_a_module_hands_on_the_names_of_its_package(module: str) -> None:
    made = importlib.import_module(f"flinknet.{module}")
    package = importlib.import_module(package_of(module))

    assert {name: getattr(made, name) for name in made.__all__} == {
        name: getattr(package, name) for name in NAMES[module].split()
    }
    assert made.__doc__ == f"What programs import from ``pyflink.{module}``."
    assert importlib.import_module(made.__name__) is made


def test_a_module_goes_to_another_process_by_name() -> None:
    from flinknet.datastream import window

    assert pickle.loads(pickle.dumps(window.TimeWindow)) is window.TimeWindow


def test_stubs_are_made_of_the_table() -> None:
    """Run ``python -m tests.pyflink.stubs`` when the table has changed."""
    written = {path: path.read_text(encoding="utf-8") for path in stubs()}
    assert written == stubs()
    packages = {path.parent for path in stubs()}
    assert set(stubs()) == {path for package in packages for path in package.glob("*.pyi")}
