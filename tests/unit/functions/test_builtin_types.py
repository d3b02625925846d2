"""Every job knows rows and instants, beside the classes that it registers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from flinknet.errors import ConfigurationError
from flinknet.functions.builtin_types import BUILTIN_TYPES, record_types
from flinknet.functions.durations import Instant
from flinknet.functions.row import Row


@dataclass
class Reading:
    value: int


def test_they_have_numbers_that_no_job_comes_to() -> None:
    assert record_types([Reading]).numbered == {0: Reading, **BUILTIN_TYPES}
    assert set(BUILTIN_TYPES.values()) == {Row, Instant}


def test_registering_builtin_types_changes_nothing() -> None:
    assert record_types([Row, Reading]).numbered == record_types([Reading]).numbered


def test_an_invalid_class_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="int cannot be registered"):
        record_types([int])
