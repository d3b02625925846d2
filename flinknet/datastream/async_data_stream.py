"""Asynchronous requests for the records of a stream: PyFlink's AsyncDataStream."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, overload

from flinknet.compatibility.subscripted import A, B
from flinknet.datastream.streams import DataStream
from flinknet.errors import ConfigurationError
from flinknet.functions.async_retry import NO_RETRY_STRATEGY, AsyncRetryStrategy
from flinknet.functions.durations import Duration, Time
from flinknet.functions.functions import AsyncFunction
from flinknet.functions.type_information import TypeInformation
from flinknet.operators.async_wait_operator import AsyncWaitOperator

if TYPE_CHECKING:
    from flinknet.datastream.function_types import AsyncFunctionOf

__all__ = ["AsyncDataStream"]

ASYNC_CAPACITY = 100
"""Default number of concurrent requests of a subtask, as in PyFlink."""


class AsyncDataStream:
    """Replaces each record of a stream by the results of a request, with many requests at a time.

    The four methods share these arguments:

    - ``async_function`` is an ``AsyncFunction`` or a coroutine function.
    - ``timeout`` limits the time for one record, including all attempts; 0 means no limit.
    - ``capacity`` limits the number of a subtask's records with pending results. At the limit, the
      subtask stops reading its input.
    - ``in_thread`` is for a plain, blocking function, which then runs in one of ``capacity``
      threads. A call that exceeds ``timeout`` keeps its thread until it returns.

    Watermarks do not overtake the records before them, and results have the timestamp of their
    record. A checkpoint contains the records with pending results. After a failure these are
    requested again, so a request may be made more than once, but its results count once.
    """

    @overload
    @staticmethod
    def unordered_wait(
        data_stream: DataStream[A],
        async_function: AsyncFunctionOf[A, Any],
        timeout: Time | Duration,
        capacity: int,
        output_type: TypeInformation[B],
        *,
        in_thread: bool = False,
    ) -> DataStream[B]: ...

    @overload
    @staticmethod
    def unordered_wait(
        data_stream: DataStream[A],
        async_function: AsyncFunctionOf[A, Any],
        timeout: Time | Duration,
        capacity: int = ASYNC_CAPACITY,
        *,
        output_type: TypeInformation[B],
        in_thread: bool = False,
    ) -> DataStream[B]: ...

    @overload
    @staticmethod
    def unordered_wait(
        data_stream: DataStream[A],
        async_function: AsyncFunctionOf[A, B],
        timeout: Time | Duration,
        capacity: int = ASYNC_CAPACITY,
        output_type: None = None,
        *,
        in_thread: bool = False,
    ) -> DataStream[B]: ...

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[Any],
        async_function: AsyncFunctionOf[Any, Any],
        timeout: Time | Duration,
        capacity: int = ASYNC_CAPACITY,
        output_type: TypeInformation[Any] | None = None,
        *,
        in_thread: bool = False,
    ) -> DataStream[Any]:
        """Emit results in order of completion."""
        return _replaced(
            data_stream,
            async_function,
            timeout,
            capacity,
            output_type,
            method="unordered_wait",
            in_thread=in_thread,
        )

    @overload
    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[A],
        async_function: AsyncFunctionOf[A, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int,
        output_type: TypeInformation[B],
        *,
        in_thread: bool = False,
    ) -> DataStream[B]: ...

    @overload
    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[A],
        async_function: AsyncFunctionOf[A, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = ASYNC_CAPACITY,
        *,
        output_type: TypeInformation[B],
        in_thread: bool = False,
    ) -> DataStream[B]: ...

    @overload
    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[A],
        async_function: AsyncFunctionOf[A, B],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = ASYNC_CAPACITY,
        output_type: None = None,
        *,
        in_thread: bool = False,
    ) -> DataStream[B]: ...

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[Any],
        async_function: AsyncFunctionOf[Any, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = ASYNC_CAPACITY,
        output_type: TypeInformation[Any] | None = None,
        *,
        in_thread: bool = False,
    ) -> DataStream[Any]:
        """Emit results in order of completion, and retry requests by the strategy."""
        return _replaced(
            data_stream,
            async_function,
            timeout,
            capacity,
            output_type,
            async_retry_strategy,
            method="unordered_wait_with_retry",
            in_thread=in_thread,
        )

    @overload
    @staticmethod
    def ordered_wait(
        data_stream: DataStream[A],
        async_function: AsyncFunctionOf[A, Any],
        timeout: Time | Duration,
        capacity: int,
        output_type: TypeInformation[B],
        *,
        in_thread: bool = False,
    ) -> DataStream[B]: ...

    @overload
    @staticmethod
    def ordered_wait(
        data_stream: DataStream[A],
        async_function: AsyncFunctionOf[A, Any],
        timeout: Time | Duration,
        capacity: int = ASYNC_CAPACITY,
        *,
        output_type: TypeInformation[B],
        in_thread: bool = False,
    ) -> DataStream[B]: ...

    @overload
    @staticmethod
    def ordered_wait(
        data_stream: DataStream[A],
        async_function: AsyncFunctionOf[A, B],
        timeout: Time | Duration,
        capacity: int = ASYNC_CAPACITY,
        output_type: None = None,
        *,
        in_thread: bool = False,
    ) -> DataStream[B]: ...

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[Any],
        async_function: AsyncFunctionOf[Any, Any],
        timeout: Time | Duration,
        capacity: int = ASYNC_CAPACITY,
        output_type: TypeInformation[Any] | None = None,
        *,
        in_thread: bool = False,
    ) -> DataStream[Any]:
        """Emit results in the order of their records."""
        return _replaced(
            data_stream,
            async_function,
            timeout,
            capacity,
            output_type,
            method="ordered_wait",
            in_thread=in_thread,
        )

    @overload
    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[A],
        async_function: AsyncFunctionOf[A, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int,
        output_type: TypeInformation[B],
        *,
        in_thread: bool = False,
    ) -> DataStream[B]: ...

    @overload
    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[A],
        async_function: AsyncFunctionOf[A, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = ASYNC_CAPACITY,
        *,
        output_type: TypeInformation[B],
        in_thread: bool = False,
    ) -> DataStream[B]: ...

    @overload
    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[A],
        async_function: AsyncFunctionOf[A, B],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = ASYNC_CAPACITY,
        output_type: None = None,
        *,
        in_thread: bool = False,
    ) -> DataStream[B]: ...

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[Any],
        async_function: AsyncFunctionOf[Any, Any],
        timeout: Time | Duration,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = ASYNC_CAPACITY,
        output_type: TypeInformation[Any] | None = None,
        *,
        in_thread: bool = False,
    ) -> DataStream[Any]:
        """Emit results in the order of their records, and retry requests by the strategy."""
        return _replaced(
            data_stream,
            async_function,
            timeout,
            capacity,
            output_type,
            async_retry_strategy,
            method="ordered_wait_with_retry",
            in_thread=in_thread,
        )


def _operator(
    function: AsyncFunctionOf[Any, Any],
    timeout: Time | Duration,
    capacity: int,
    strategy: AsyncRetryStrategy,
    in_thread: bool,
) -> partial[AsyncWaitOperator]:
    """Return a factory of the operator that lacks only the order argument.

    Raises ConfigurationError for a wrong argument.
    """
    if not isinstance(timeout, Time | Duration) or timeout.milliseconds_count < 0:
        raise ConfigurationError(
            f"the timeout of a request is {timeout!r}: choose a Time, as in Time.seconds(10), of 0 "
            "(never) or more"
        )
    if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
        raise ConfigurationError(
            f"the capacity is {capacity!r}: choose at least 1 request at a time"
        )
    if not isinstance(strategy, AsyncRetryStrategy):
        raise ConfigurationError(
            f"the retry strategy is {strategy!r}: choose an AsyncRetryStrategy, as in "
            "AsyncRetryStrategy.fixed_delay(...)"
        )
    if strategy is not NO_RETRY_STRATEGY and not timeout.milliseconds_count:
        raise ConfigurationError(
            "retried requests need a timeout, which covers all attempts: otherwise a request may "
            "never end"
        )
    settings = timeout.milliseconds_count, capacity, strategy
    return partial(AsyncWaitOperator, function, *settings, in_thread=in_thread)


_Method = Literal[
    "ordered_wait", "ordered_wait_with_retry", "unordered_wait", "unordered_wait_with_retry"
]


def _replaced(
    stream: DataStream[Any],
    function: AsyncFunctionOf[Any, Any],
    timeout: Time | Duration,
    capacity: int,
    output_type: TypeInformation | None,
    strategy: AsyncRetryStrategy = NO_RETRY_STRATEGY,
    *,
    method: _Method,
    in_thread: bool,
) -> DataStream[Any]:
    """Return the stream of results; raise ConfigurationError for a wrong argument."""
    retries = method.endswith("_with_retry")
    _check_order(
        method,
        {
            "data_stream": stream,
            "async_function": function,
            "timeout": timeout,
            **({"async_retry_strategy": strategy} if retries else {}),
            "capacity": capacity,
            "output_type": output_type,
        },
    )
    operator = _operator(function, timeout, capacity, strategy, in_thread)
    ordered = method.startswith("ordered")
    return stream.transform("async wait operator", partial(operator, ordered=ordered), output_type)


_KINDS: tuple[tuple[str, Any], ...] = (
    ("data_stream", DataStream),
    ("timeout", Time | Duration),
    ("async_retry_strategy", AsyncRetryStrategy),
    ("output_type", TypeInformation),
    ("async_function", AsyncFunction | Callable),
)
"""Parameters, each with the type of value that only it accepts; the first match counts."""


def _check_order(method: str, arguments: dict[str, Any]) -> None:
    """Reject an argument that was passed in the position of another parameter.

    The order is easy to mix up, because Flink's Java API has a different one.
    """
    for parameter, value in arguments.items():
        fitting = next((name for name, kind in _KINDS if isinstance(value, kind)), "")
        kind = type(value).__name__
        if not fitting and parameter == "data_stream":
            meant = "which is no stream"
        elif fitting in ("", parameter):
            continue
        else:
            meant = f"which is for {fitting}" if fitting in arguments else "which it does not take"
        raise ConfigurationError(
            f"{method} was given a value of type {kind} for {parameter}, {meant}: the order is "
            f"{', '.join(arguments)}"
        )
