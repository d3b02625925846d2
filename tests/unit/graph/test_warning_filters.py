"""A program's warning filters apply in the workers that run its functions."""

from __future__ import annotations

import pickle
import sys
import types
import warnings
from typing import Any

import pytest

from flinknet.graph.pickler import dumps
from flinknet.graph.warning_filters import program_filters, take_filters


class OwnWarning(UserWarning):
    """A warning class of the program's own file."""


def test_restored_filters_warn_as_in_the_program() -> None:
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.filterwarnings("ignore", "quiet", UserWarning)
        warnings.filterwarnings("error", "loud", UserWarning, "tests.*")
        warnings.simplefilter("always", OwnWarning)
        filters = pickle.loads(dumps(program_filters()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        take_filters(filters)
        warnings.warn("Quiet please", stacklevel=1)
        with pytest.raises(UserWarning, match="loud"):
            warnings.warn("loud music", stacklevel=1)
        with pytest.warns(OwnWarning):
            warnings.warn("own", OwnWarning, stacklevel=1)
        assert program_filters() == filters


def test_filters_that_are_there_are_left_alone() -> None:
    with warnings.catch_warnings():
        before = list(warnings.filters)
        take_filters(program_filters())
        assert list(warnings.filters) == before


def test_a_library_that_is_not_loaded_does_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is not imported for the filter. The filter counts once the class is there."""
    library = types.ModuleType("a_library")
    library.Late = type("Late", (Warning,), {"__module__": "a_library"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "a_library", library)
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("error", library.Late)
        filters = pickle.loads(dumps(program_filters()))
        assert [one.category for one in filters] == [("a_library", "Late")]
        monkeypatch.delitem(sys.modules, "a_library")
        warnings.resetwarnings()
        take_filters(filters)
        assert program_filters() == ()
        monkeypatch.setitem(sys.modules, "a_library", library)
        take_filters(filters)
        with pytest.raises(library.Late):
            warnings.warn("too late", library.Late, stacklevel=1)


def test_filters_of_the_command_line_and_of_python_itself_can_be_sent() -> None:
    """These filters are plain names, not regular expressions."""
    with warnings.catch_warnings():
        warnings.resetwarnings()
        first: Any = warnings.filters
        first.insert(0, ("default", None, DeprecationWarning, "__main__", 0))
        (one,) = program_filters()
        assert (one.action, one.message, one.module) == ("default", "", "__main__")
