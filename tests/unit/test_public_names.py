"""The names that users import from ``flinknet`` and ``flinknet.datastream``."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

import flinknet
from flinknet import common, config, datastream, errors

PUBLIC = (flinknet, common, datastream, errors, config)


def named_in_signatures(class_: type) -> Iterator[type]:
    """Return the classes of flinknet that the public methods of a class take and return."""
    for name, member in vars(class_).items():
        function = inspect.unwrap(getattr(member, "fget", member))
        if inspect.isfunction(function) and (not name.startswith("_") or name == "__init__"):
            for word in re.findall(r"\w+", " ".join(map(str, function.__annotations__.values()))):
                named = function.__globals__.get(word)
                if isinstance(named, type) and named.__module__.startswith("flinknet."):
                    yield named


@pytest.mark.parametrize(
    "module", [flinknet, common, datastream], ids=lambda module: module.__name__
)
def test_every_name_is_there_once_and_in_order(module: ModuleType) -> None:
    names = [name for name in module.__all__ if name != "__version__"]
    assert names == sorted(set(names))
    assert all(hasattr(module, name) for name in names)


def test_what_stands_in_the_signatures_of_an_environment_can_be_imported() -> None:
    exported = {getattr(module, name) for module in PUBLIC for name in module.__all__}
    named = {*named_in_signatures(flinknet.NetworkEnvironment)}
    assert named
    assert named <= exported, named - exported


def test_columns_are_imported_when_they_are_asked_for() -> None:
    """``import flinknet`` needs no pyarrow, and neither does ``import *``."""
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from flinknet import *\n"
        "import flinknet\n"
        "try: flinknet.ColumnHashPartitioner\n"
        "except ImportError: print('needs pyarrow')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "needs pyarrow\n"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert flinknet.ColumnHashPartitioner.cuts_records
    with pytest.raises(AttributeError, match="'flinknet' has no attribute 'Emission'"):
        flinknet.Emission  # noqa: B018
