"""Retries of asynchronous requests: PyFlink's retry strategies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from flinknet.compatibility.subscripted import Subscripted, T
from flinknet.errors import ConfigurationError

__all__ = [
    "NO_RETRY_STRATEGY",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]

ResultPredicate = Callable[[list[Any]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncRetryPredicate(Subscripted[T], ABC):
    """The conditions, on results and on errors, for a request to be repeated."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """Return a predicate on the list of results; None if no result leads to a retry."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Return a predicate on the error; None if no error leads to a retry."""


class RetryPredicate(AsyncRetryPredicate):
    """A pair of given predicates."""

    def __init__(
        self,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        for predicate in (result_predicate, exception_predicate):
            if predicate is not None and not callable(predicate):
                raise ConfigurationError(
                    f"a retry predicate is {predicate!r}: choose a function, or None"
                )
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate | None:
        return self._exception_predicate


class AsyncRetryStrategy(Subscripted[T], ABC):
    """The number of attempts for a request, and the delays between them.

    One strategy object serves all requests of a subtask, so it must keep no state about any of
    them.
    """

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Return whether a request that was made ``current_attempts`` times may be repeated."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the delay before the next attempt, in milliseconds."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate:
        """Return the conditions for a retry."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy:
        """Return the strategy that makes each request once."""
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy:
        """Return a strategy with the same delay before each retry."""
        return FixedDelayRetryStrategy(
            max_attempts, backoff_time_millis, result_predicate, exception_predicate
        )

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy:
        """Return a strategy with delays that grow by a factor of ``multiplier``."""
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts,
            initial_delay,
            max_retry_delay,
            multiplier,
            result_predicate,
            exception_predicate,
        )


class NoRetryStrategy(AsyncRetryStrategy):
    """A strategy that makes each request once."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return RetryPredicate(None, None)


class FixedDelayRetryStrategy(AsyncRetryStrategy):
    """A strategy with up to ``max_attempts`` retries and a fixed delay before each.

    The delay of ``backoff_time_millis`` starts when the previous attempt has returned.
    """

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        _require_positive("max_attempts", max_attempts)
        _require_positive("backoff_time_millis", backoff_time_millis)
        self._max_attempts = max_attempts
        self._backoff_time_millis = backoff_time_millis
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_time_millis

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


class ExponentialBackoffDelayRetryStrategy(AsyncRetryStrategy):
    """A strategy with up to ``max_attempts`` retries and growing delays.

    The first delay is ``initial_delay`` milliseconds. Each further delay is ``multiplier`` times
    the previous one, up to ``max_retry_delay``.
    """

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        _require_positive("max_attempts", max_attempts)
        _require_positive("initial_delay", initial_delay)
        _require_positive("max_retry_delay", max_retry_delay)
        _require_positive("multiplier", multiplier)
        self._max_attempts = max_attempts
        self._initial_delay = initial_delay
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier
        self._predicate = RetryPredicate(result_predicate, exception_predicate)

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        # Computed anew for each attempt, because one strategy serves all requests.
        delay: float = self._initial_delay
        for _ in range(current_attempts - 1):
            delay = min(delay * self._multiplier, self._max_retry_delay)
        return int(delay)

    def get_retry_predicate(self) -> AsyncRetryPredicate:
        return self._predicate


def _require_positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ConfigurationError(f"{name} is {value!r}: choose a number greater than 0")


NO_RETRY_STRATEGY: AsyncRetryStrategy = NoRetryStrategy()
