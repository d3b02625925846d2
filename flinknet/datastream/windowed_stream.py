"""Streams divided into windows, with PyFlink's names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self, overload

from flinknet.compatibility.pyflink_differences import PyFlinkNames
from flinknet.compatibility.subscripted import B, K, R, Subscripted, T, W
from flinknet.errors import ConfigurationError
from flinknet.functions.durations import Time
from flinknet.functions.evictors import EvictingContents, Evictor
from flinknet.functions.triggers import Trigger
from flinknet.functions.type_information import TypeInformation, converter
from flinknet.functions.window_functions import (
    AggregatedContents,
    AllWindowFunction,
    ElementContents,
    ReducedContents,
    WindowContents,
    WindowFunction,
)
from flinknet.functions.windows import WindowAssigner, span_ms
from flinknet.operators.operators import OperatorFactory
from flinknet.operators.side_outputs import OutputTag
from flinknet.operators.window_operator import WindowMethod, WindowOperator

if TYPE_CHECKING:
    from flinknet.datastream.function_types import (
        Aggregates,
        AllWindowFunctionOf,
        AppliesAllWindow,
        AppliesWindow,
        ReduceFunctionOf,
        WindowFunctionOf,
    )
    from flinknet.datastream.streams import DataStream
    from flinknet.functions.results import ResultsOrTagged

__all__ = ["WindowedStream"]


class AddWindows(Protocol):
    """Adds the operator to the program, and returns its output stream."""

    def __call__(
        self,
        name: str,
        factory: OperatorFactory,
        *,
        output_type: TypeInformation | None,
        keeps_type: bool,
        needs_timestamps: bool,
    ) -> DataStream[Any]: ...


class WindowedStream(PyFlinkNames, Subscripted[T, K, W]):
    """A stream divided into windows, per key or, after ``window_all``, over all records.

    Functions of a stream without keys receive no key. Results have the timestamp of the window's
    end.
    """

    def __init__(
        self,
        add: AddWindows,
        assigner: WindowAssigner[Any, W],
        key: Callable[[Any], Any] | None,
    ) -> None:
        if not isinstance(assigner, WindowAssigner):
            raise ConfigurationError(
                f"a window needs a WindowAssigner, not {type(assigner).__name__}: for example "
                "TumblingEventTimeWindows.of(Time.seconds(5))"
            )
        self._add = add
        self._assigner = assigner
        self._key = key
        self._trigger = assigner.get_default_trigger()
        self._lateness_ms = 0
        self._late_tag: OutputTag | None = None
        self._evictor: Evictor | None = None

    def trigger(self, trigger: Trigger) -> Self:
        """Set the trigger, which decides when windows fire."""
        if not isinstance(trigger, Trigger):
            raise ConfigurationError(f"trigger needs a Trigger, not {type(trigger).__name__}")
        if self._assigner.merges and not trigger.can_merge():
            raise ConfigurationError(
                f"{type(trigger).__name__} cannot merge, but session windows merge: choose "
                "another trigger"
            )
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor) -> Self:
        """Set the evictor, which removes records when a window fires.

        A window with an evictor keeps all its records, even if it reduces or aggregates.
        """
        if not isinstance(evictor, Evictor):
            raise ConfigurationError(f"evictor needs an Evictor, not {type(evictor).__name__}")
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: int | Time) -> Self:
        """Keep event-time windows this long after their end; each late record fires them again."""
        lateness_ms = span_ms("allowed_lateness", time_ms)
        if lateness_ms < 0:
            raise ConfigurationError(f"allowed_lateness is {lateness_ms} ms: choose 0 or more")
        self._lateness_ms = lateness_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag[T]) -> Self:
        """Send records that are too late to ``get_side_output(output_tag)`` of the result."""
        if not isinstance(output_tag, OutputTag):
            raise ConfigurationError(f"late data needs an OutputTag, not {output_tag!r}")
        self._late_tag = output_tag
        return self

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunctionOf[T],
        window_function: Any,
        output_type: TypeInformation[R],
    ) -> DataStream[R]: ...

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunctionOf[T],
        window_function: Any = None,
        *,
        output_type: TypeInformation[R],
    ) -> DataStream[R]: ...

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunctionOf[T],
        window_function: None = None,
        output_type: None = None,
    ) -> DataStream[T]: ...

    @overload
    def reduce(
        self: WindowedStream[T, None, W],
        reduce_function: ReduceFunctionOf[T],
        window_function: AllWindowFunctionOf[T, R, W],
        output_type: None = None,
    ) -> DataStream[R]: ...

    @overload
    def reduce(
        self,
        reduce_function: ReduceFunctionOf[T],
        window_function: WindowFunctionOf[T, R, K, W],
        output_type: None = None,
    ) -> DataStream[R]: ...

    def reduce(
        self,
        reduce_function: ReduceFunctionOf[T],
        window_function: Any = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Reduce the records of a window pairwise to one record.

        The window function receives the result.
        """
        contents = ReducedContents(reduce_function)
        return self._windows("Reduce", contents, window_function, output_type)

    @overload
    def aggregate(
        self,
        aggregate_function: Aggregates[T, Any, Any],
        window_function: Any = None,
        accumulator_type: TypeInformation | None = None,
        *,
        output_type: TypeInformation[R],
    ) -> DataStream[R]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: Aggregates[T, Any, R],
        window_function: None = None,
        accumulator_type: TypeInformation | None = None,
        output_type: None = None,
    ) -> DataStream[R]: ...

    @overload
    def aggregate(
        self: WindowedStream[T, None, W],
        aggregate_function: Aggregates[T, Any, B],
        window_function: AllWindowFunctionOf[B, R, W],
        accumulator_type: TypeInformation | None = None,
        output_type: None = None,
    ) -> DataStream[R]: ...

    @overload
    def aggregate(
        self,
        aggregate_function: Aggregates[T, Any, B],
        window_function: WindowFunctionOf[B, R, K, W],
        accumulator_type: TypeInformation | None = None,
        output_type: None = None,
    ) -> DataStream[R]: ...

    def aggregate(
        self,
        aggregate_function: Any,
        window_function: Any = None,
        accumulator_type: TypeInformation | None = None,
        output_type: TypeInformation | None = None,
    ) -> DataStream[Any]:
        """Fold the records of a window into an accumulator.

        The window function receives the result; without one the result is emitted. Accumulators are
        converted to ``accumulator_type`` after each record.
        """
        contents = AggregatedContents(
            aggregate_function,
            merges=self._assigner.merges,
            convert=converter(accumulator_type),
        )
        return self._windows("Aggregate", contents, window_function, output_type)

    @overload
    def process(
        self: WindowedStream[T, None, W],
        process_window_function: AllWindowFunctionOf[T, Any, W],
        output_type: TypeInformation[R],
    ) -> DataStream[R]: ...

    @overload
    def process(
        self,
        process_window_function: WindowFunctionOf[T, Any, K, W],
        output_type: TypeInformation[R],
    ) -> DataStream[R]: ...

    @overload
    def process(
        self: WindowedStream[T, None, W],
        process_window_function: AllWindowFunctionOf[T, R, W],
        output_type: None = None,
    ) -> DataStream[R]: ...

    @overload
    def process(
        self,
        process_window_function: WindowFunctionOf[T, R, K, W],
        output_type: None = None,
    ) -> DataStream[R]: ...

    def process(
        self, process_window_function: Any, output_type: TypeInformation | None = None
    ) -> DataStream[Any]:
        """Call ``function(key, context, elements)`` or a ProcessWindowFunction for each window."""
        return self._windows("Process", ElementContents(), process_window_function, output_type)

    @overload
    def apply(
        self: WindowedStream[T, None, W],
        window_function: AppliesAllWindow[T, Any, W] | Callable[[W, list[T]], ResultsOrTagged[Any]],
        output_type: TypeInformation[R],
    ) -> DataStream[R]: ...

    @overload
    def apply(
        self,
        window_function: AppliesWindow[T, Any, K, W]
        | Callable[[K, W, list[T]], ResultsOrTagged[Any]],
        output_type: TypeInformation[R],
    ) -> DataStream[R]: ...

    @overload
    def apply(
        self: WindowedStream[T, None, W],
        window_function: AppliesAllWindow[T, R, W] | Callable[[W, list[T]], ResultsOrTagged[R]],
        output_type: None = None,
    ) -> DataStream[R]: ...

    @overload
    def apply(
        self,
        window_function: AppliesWindow[T, R, K, W] | Callable[[K, W, list[T]], ResultsOrTagged[R]],
        output_type: None = None,
    ) -> DataStream[R]: ...

    def apply(
        self, window_function: Any, output_type: TypeInformation | None = None
    ) -> DataStream[Any]:
        """Call ``function(key, window, elements)`` or a WindowFunction for each window."""
        return self._windows("Apply", ElementContents(), window_function, output_type, "apply")

    def _windows(
        self,
        what: str,
        contents: WindowContents,
        function: Any,
        output_type: TypeInformation | None,
        method: WindowMethod = "process",
    ) -> DataStream[Any]:
        if isinstance(function, WindowFunction | AllWindowFunction):
            method = "apply"
        keeps_type = function is None and isinstance(contents, ReducedContents)
        if self._evictor is not None:
            contents = EvictingContents(contents, self._evictor)
        key = self._key
        factory = partial(
            WindowOperator,
            self._assigner,
            self._trigger,
            contents,
            function,
            method,
            # Without keys, all records are in the windows of one key.
            _one_key if key is None else key,
            keyed=key is not None,
            lateness_ms=self._lateness_ms,
            late_tag=self._late_tag,
        )
        return self._add(
            f"{type(self._assigner).__name__} {what}",
            factory,
            output_type=output_type,
            keeps_type=keeps_type,
            needs_timestamps=self._assigner.is_event_time,
        )


def _one_key(value: Any) -> None:
    return None
