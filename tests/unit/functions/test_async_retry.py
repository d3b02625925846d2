"""Whether and when a request is repeated."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.datastream.async_retry_predicates import empty_result_predicate
from flinknet.errors import ConfigurationError
from flinknet.functions.async_retry import (
    NO_RETRY_STRATEGY,
    AsyncRetryStrategy,
    ExponentialBackoffDelayRetryStrategy,
    RetryPredicate,
)


def test_without_retries_a_request_is_made_once() -> None:
    strategy = AsyncRetryStrategy.no_restart()
    assert strategy is NO_RETRY_STRATEGY
    assert not strategy.can_retry(1)
    assert strategy.get_backoff_time_millis(1) == -1
    predicate = strategy.get_retry_predicate()
    assert predicate.result_predicate() is None
    assert predicate.exception_predicate() is None


def test_a_fixed_delay_allows_so_many_more_attempts() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(2, 50, empty_result_predicate, None)
    assert [strategy.can_retry(made) for made in (1, 2, 3)] == [True, True, False]
    assert [strategy.get_backoff_time_millis(made) for made in (1, 2)] == [50, 50]
    assert strategy.get_retry_predicate().result_predicate() is empty_result_predicate


def test_delays_grow_for_each_request_by_itself_up_to_a_bound() -> None:
    strategy = AsyncRetryStrategy.exponential_backoff(9, 100, 450, 2.0, None, None)
    assert [strategy.get_backoff_time_millis(made) for made in (1, 2, 3, 4)] == [100, 200, 400, 450]
    assert strategy.get_backoff_time_millis(1) == 100
    assert strategy.can_retry(9)
    assert not strategy.can_retry(10)
    assert strategy.get_retry_predicate().exception_predicate() is None


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((0, 1, 1, 1.0, None, None), "max_attempts"),
        ((1, 0, 1, 1.0, None, None), "initial_delay"),
        ((1, 1, -1, 1.0, None, None), "max_retry_delay"),
        ((1, 1, 1, 0, None, None), "multiplier"),
    ],
)
def test_a_number_that_is_not_positive_is_refused(arguments: Any, named: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{named} is .*: choose a number greater than 0"):
        ExponentialBackoffDelayRetryStrategy(*arguments)
    with pytest.raises(ConfigurationError, match="backoff_time_millis is None"):
        AsyncRetryStrategy.fixed_delay(1, None, None, None)  # type: ignore[arg-type]


def test_a_predicate_is_a_function() -> None:
    with pytest.raises(ConfigurationError, match="a retry predicate is True"):
        RetryPredicate(True, None)  # type: ignore[arg-type]
