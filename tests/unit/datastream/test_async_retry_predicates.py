"""The results and errors after which a request is repeated."""

from __future__ import annotations

from flinknet.datastream import async_retry_predicates
from flinknet.datastream.async_retry_predicates import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)


def test_the_predicates_of_pyflink() -> None:
    assert empty_result_predicate([])
    assert empty_result_predicate(None)
    assert not empty_result_predicate([0])
    assert has_exception_predicate(ValueError())
    assert not has_exception_predicate(None)
    assert exception_type_predicate(KeyError(), LookupError)
    assert not exception_type_predicate(KeyError(), OSError)


def test_they_can_be_imported_as_in_pyflink() -> None:
    assert async_retry_predicates.has_exception_predicate is has_exception_predicate
