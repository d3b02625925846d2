"""Function classes for user code, in the shape of PyFlink's.

A plain callable can stand in for any function. Function classes are for functions that must know
where they run (``open``), that hold resources (``close``), or that keep state. The method that
takes records may also be a coroutine function. Each subtask has its own copy of the function, so an
instance's attributes are private to one subtask.

A function owns each record that it receives, and may change and keep it. A record that a function
emits stays as it was at that moment, even if the function changes it later: mutable records that
are still referenced elsewhere are copied. After ``get_config().enable_object_reuse()``, functions
share records and must not change any. Key selectors, partitioners and timestamp assigners only read
a record; they must not change or keep it.

A plain function runs in its subtask's own thread, so it may block (``task_thread.py``). A function
of ``AsyncDataStream`` handles many records concurrently. A coroutine function runs on the event
loop of the worker and must not block it.
"""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from flinknet.compatibility.subscripted import A, B, C, K, Subscripted, T
from flinknet.functions import context
from flinknet.functions.attributes import give_own_dictionary
from flinknet.functions.results import MaybeAwaitable, Results, ResultsOrTagged
from flinknet.records.conversion import ConvertedKey

__all__ = [
    "AggregateFunction",
    "AsyncFunction",
    "CheckpointListener",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "KeySelector",
    "KeyedProcessFunction",
    "MapBatchFunction",
    "MapFunction",
    "Partitioner",
    "ProcessBatchFunction",
    "ProcessFunction",
    "ReduceFunction",
    "SinkFunction",
    "WithdrawableOutput",
    "fail_timed_out",
    "find_attributes_fast",
    "key_of_value",
]


class Function:
    """Base of the function classes: the life cycle of a function in a subtask.

    ``open`` is called before the first record, ``finish`` after the last one if all went well.
    ``close`` is called exactly once if ``open`` was called, even if the subtask fails or is
    cancelled. Each may be a coroutine function.
    """

    def open(self, runtime_context: context.RuntimeContext) -> Any:
        """Prepare for the first record."""

    def finish(self) -> Any:
        """Yield, or return an iterable of, the last records to emit; None means none."""

    def close(self) -> Any:
        """Release the resources that ``open`` acquired."""


class CheckpointListener(ABC):
    """A mixin for functions that must know when a checkpoint is complete.

    It is an additional base beside the function class. Its method is called between two records. An
    exception from it fails the job's attempt.
    """

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> Any:
        """Handle the completion of a checkpoint, and of all earlier ones.

        Some completed checkpoints are not announced. In a job with checkpoints, one that was taken
        after ``finish`` always is. May be a coroutine function.

        Output that is made visible here cannot be taken back unless the class also derives from
        ``WithdrawableOutput``. Without that base, a job that has lost its newest checkpoint does
        not resume from an older one.
        """


class WithdrawableOutput(ABC):
    """A mixin for functions and sinks that can take back output made visible with a checkpoint.

    It is an additional base beside ``CheckpointListener`` or ``CheckpointedSink``. The newest
    checkpoint of a job may turn out to be damaged or lost. The job then resumes from an older one
    and processes the later records again.
    """

    @abstractmethod
    def withdraw_after(self, checkpoint_id: int) -> Any:
        """Remove the output that this subtask made visible with checkpoints after this one.

        This includes the output of every attempt of the job. The method must be idempotent. It is
        called after ``open`` and before the first record, each time the job resumes from one of its
        own checkpoints; usually there is nothing to remove.

        May be a coroutine function, except in a ``CheckpointedSink``, where it runs in a thread. An
        exception fails the attempt.
        """


class MapFunction(Function, Subscripted[A, B], ABC):
    """A function that turns each record into one record."""

    @abstractmethod
    def map(self, value: A) -> MaybeAwaitable[B]:
        """Return the record that replaces ``value``."""


class FlatMapFunction(Function, Subscripted[A, B], ABC):
    """A function that turns each record into any number of records."""

    @abstractmethod
    def flat_map(self, value: A) -> Results[B]:
        """Yield, or return an iterable of, the records that replace ``value``; None means none."""


class FilterFunction(Function, Subscripted[T], ABC):
    """A function that keeps or drops each record."""

    @abstractmethod
    def filter(self, value: T) -> MaybeAwaitable[bool]:
        """Return whether ``value`` stays in the stream."""


class AsyncFunction(Function, Subscripted[A, B], ABC):
    """A function that makes a request for each record, many at a time, for ``AsyncDataStream``.

    Both methods are called for further records before the first request is done. Attributes of the
    function must therefore not belong to a single record.
    """

    @abstractmethod
    def async_invoke(self, value: A) -> Results[B]:
        """Return an iterable of the records that replace ``value``; None means none.

        The method is either declared with ``async def``, or it blocks and is called in a thread
        (``in_thread=True``).
        """

    def timeout(self, value: A) -> Results[B]:
        """Return an iterable of records for a value after its request timed out.

        By default it raises TimeoutError, which fails the job's attempt.
        """
        fail_timed_out(value)


def fail_timed_out(value: Any) -> NoReturn:
    """Raise the TimeoutError of a request that timed out."""
    raise TimeoutError(
        f"the request for {reprlib.repr(value)} was not completed in time: allow more time, or "
        "return replacement results in timeout()"
    )


class MapBatchFunction(Function, Subscripted[A, B], ABC):
    """A function on batches of records, for work that is cheaper in bulk."""

    @abstractmethod
    def map_batch(self, values: list[A]) -> Results[B]:
        """Yield, or return an iterable of, the records that replace ``values``; None means none.

        ``values`` has one or more records. It holds the records of one network buffer, or the
        records that a source or an operator of the same task emitted at once. The function must not
        change the list, but may keep it.
        """


class KeySelector(Subscripted[T, K], ABC):
    """A function that computes the key of a record.

    Producers and keyed subtasks both use it, so it has no life cycle.
    """

    @abstractmethod
    def get_key(self, value: T) -> K:
        """Return the key, which must be the same on every call; see ``DataStream.key_by``."""


class Partitioner(Subscripted[K], ABC):
    """A function that chooses a subtask for a record by its key.

    Producers use it, so it has no life cycle.
    """

    @abstractmethod
    def partition(self, key: K, num_partitions: int) -> int:
        """Return the index of the subtask, from 0 to ``num_partitions`` - 1."""


class ReduceFunction(Function, Subscripted[T], ABC):
    """A function that combines two records of one key into one."""

    @abstractmethod
    def reduce(self, value1: T, value2: T) -> MaybeAwaitable[T]:
        """Return the combination of the result so far and the next record."""


class AggregateFunction(Function, Subscripted[A, B, C], ABC):
    """A function that folds the records of a key into an accumulator."""

    @abstractmethod
    def create_accumulator(self) -> B:
        """Return the accumulator of a key without records."""

    @abstractmethod
    def add(self, value: A, accumulator: B) -> B:
        """Return the accumulator with ``value`` added; it may be changed in place."""

    @abstractmethod
    def get_result(self, accumulator: B) -> C:
        """Return the result of the accumulator, to which more records may be added later."""

    def merge(self, acc_a: B, acc_b: B) -> B:
        """Return the combination of two accumulators; only session windows need it."""
        raise TypeError(f"{type(self).__name__} has no merge")


class ProcessFunction(Function, Subscripted[A, B], ABC):
    """A function that turns each record into any number of records, with a context."""

    Context: TypeAlias = context.ProcessContext

    @abstractmethod
    def process_element(self, value: A, ctx: context.ProcessContext) -> ResultsOrTagged[B]:
        """Yield, or return an iterable of, records; None means none."""


class KeyedProcessFunction(Function, Subscripted[K, A, B], ABC):
    """A process function on a keyed stream: ``open`` can request keyed state."""

    Context: TypeAlias = context.ProcessContext
    OnTimerContext: TypeAlias = context.OnTimerContext

    @abstractmethod
    def process_element(self, value: A, ctx: context.ProcessContext) -> ResultsOrTagged[B]:
        """Yield, or return an iterable of, records; None means none.

        Keyed state belongs to ``ctx.get_current_key()``.
        """

    def on_timer(self, timestamp: int, ctx: context.OnTimerContext) -> ResultsOrTagged[B]:
        """Yield, or return an iterable of, records when a timer fires.

        Timers are registered with ``ctx.timer_service()``. Keyed state belongs to the timer's key,
        ``ctx.get_current_key()``.
        """


class ProcessBatchFunction(Function, Subscripted[K, A, B], ABC):
    """A function on the batches of a keyed stream: ``open`` can request keyed state."""

    @abstractmethod
    def process_batch(self, key: K, values: list[A]) -> Results[B]:
        """Yield, or return an iterable of, records; None means none.

        ``values`` are the records of the key in one batch, in order, at least one. The function
        owns the list. Keyed state belongs to ``key``.
        """


class SinkFunction(Function, Subscripted[T], ABC):
    """A function that consumes the records that leave the job at a sink, one at a time."""

    @abstractmethod
    def invoke(self, value: T) -> Any:
        """Consume one record."""


def find_attributes_fast(function: Any) -> None:
    """Restore fast attribute access of a function object, or of a method's object.

    This works for classes with any way of unpickling. Any other value is left as it is.
    """
    if isinstance(function, ConvertedKey):
        function = function.key
    owner = getattr(function, "__self__", function)
    if isinstance(owner, Function | KeySelector):
        give_own_dictionary(owner)


def key_of_value(key_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a key selector for tuples ``(timestamp, value)``."""
    find_attributes_fast(key_of)
    return lambda record: key_of(record[1])
