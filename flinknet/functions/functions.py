"""What a user writes: function classes in the shape of PyFlink's.

Wherever a function is asked for, a plain callable will do; a class is for functions that need to
know where they run (``open``), that hold something to be released (``close``), or that keep state.
The one method of a class that takes records may also be a coroutine function. Every subtask has its
own copy of the function, so what an instance keeps in its attributes is private to one subtask.

A record belongs to the function that it is given to, which may change and keep it. A record that a
function gives away stays what it was then, whatever the function does later: it is copied if it can
be changed and anything else refers to it. After ``get_config().enable_object_reuse()`` records are
shared, and no function may change one. Key selectors, partitioners and timestamp assigners look at
a record, and neither change nor keep it.

A plain function runs in a thread of its subtask's own, so it may block (``task_thread.py``). A
function of ``AsyncDataStream`` works on many records at once. A coroutine function runs on the
event loop of the worker, and must not block it.
"""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeAlias

from flinknet.compatibility.subscripted import Subscripted
from flinknet.functions import context
from flinknet.functions.attributes import give_own_dictionary
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


class Function(Subscripted):
    """Base of the function classes: the life of a function in a subtask.

    ``open`` is called before the first record, ``finish`` after the last one if all went well.
    ``close`` is called exactly once if ``open`` was called, also when the subtask fails or is
    cancelled. Each may be a coroutine function.
    """

    def open(self, runtime_context: context.RuntimeContext) -> Any:
        """Prepare for the first record."""

    def finish(self) -> Any:
        """Yield, or return an iterable of, the last records to emit; None means none."""

    def close(self) -> Any:
        """Release what ``open`` acquired."""


class CheckpointListener(ABC):
    """A function that wants to know which checkpoints are complete: a base beside that of the
    function class. Called between two records; what it raises fails the job's attempt."""

    @abstractmethod
    def notify_checkpoint_complete(self, checkpoint_id: int) -> Any:
        """A checkpoint is complete, and with it those before. Not every one is told of, but in a
        job with checkpoints one that was taken behind ``finish``; may be a coroutine function.

        What is made visible here cannot be taken back, unless the class has the base
        ``WithdrawableOutput``: a job whose newest checkpoint is lost does not go on from an older
        one without it."""


class WithdrawableOutput(ABC):
    """A function or sink that can take back output that it made visible with a checkpoint: a base
    beside ``CheckpointListener`` or ``CheckpointedSink``.

    The newest checkpoint of a job may turn out to be damaged or gone. The job then goes on from an
    older one, and the records behind that one are processed again.
    """

    @abstractmethod
    def withdraw_after(self, checkpoint_id: int) -> Any:
        """Remove what this subtask has made visible with checkpoints behind this one, in whatever
        attempt of the job; idempotent.

        Called after ``open`` and before the first record whenever the job goes on from a
        checkpoint of its own; usually there is nothing to remove. May be a coroutine function,
        except in a ``CheckpointedSink``, where it runs in a thread. What it raises fails the
        attempt.
        """


class MapFunction(Function, ABC):
    """One record in, one record out."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Return the record that replaces ``value``."""


class FlatMapFunction(Function, ABC):
    """One record in, any number out."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Yield, or return an iterable of, the records that replace ``value``; None means none."""


class FilterFunction(Function, ABC):
    """Keeps or drops a record."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Return whether ``value`` stays in the stream."""


class AsyncFunction(Function, ABC):
    """A request for each record, many at a time; for ``AsyncDataStream``.

    Both methods are called for many records before the first of them is done, so nothing in the
    function may belong to one record.
    """

    @abstractmethod
    def async_invoke(self, value: Any) -> Any:
        """Return an iterable of the records that replace ``value``; None means none. It is declared
        with ``async def``, or blocks and is called in a thread (``in_thread=True``)."""

    def timeout(self, value: Any) -> Any:
        """Return an iterable of records for a value whose request was not done in time; by default
        it raises TimeoutError, which fails the job's attempt."""
        fail_timed_out(value)


def fail_timed_out(value: Any) -> NoReturn:
    """Raise the TimeoutError of a request that was not done in time."""
    raise TimeoutError(
        f"the request for {reprlib.repr(value)} was not done in time: allow more, or say in "
        "timeout() what to emit instead"
    )


class MapBatchFunction(Function, ABC):
    """The records of a batch in, any number out: for what is cheaper for many at once."""

    @abstractmethod
    def map_batch(self, values: list[Any]) -> Iterable[Any] | None:
        """Yield, or return an iterable of, the records that replace ``values``; None means none.

        ``values`` is what came in one network buffer, or at once from a source or an operator of
        the same task: at least one record, and however many there were. The list must not be
        changed, but may be kept.
        """


class KeySelector(ABC):
    """The key of a record; used in producers and in keyed subtasks, so it has no life cycle."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Return the key: not None, hashable, serialisable, the same whenever it is asked for."""


class Partitioner(ABC):
    """Where a record goes, by its key; used in producers, so it has no life cycle."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Return the number of the subtask, from 0 and less than ``num_partitions``."""


class ReduceFunction(Function, ABC):
    """Combines two records of one key into one."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the combination of what was reduced so far and the next record."""


class AggregateFunction(Function, ABC):
    """Folds the records of a key into an accumulator."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Return the accumulator of a key that has no record yet."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Return the accumulator with ``value`` added; it may be the same object, changed."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Return what the accumulator says; it will be added to again."""

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Return the accumulator of all that was added to either; only session windows need it."""
        raise TypeError(f"{type(self).__name__} has no merge")


class ProcessFunction(Function, ABC):
    """One record in, any number out, with a view of where the record came from."""

    Context: TypeAlias = context.ProcessContext

    @abstractmethod
    def process_element(self, value: Any, ctx: context.ProcessContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records; None means none."""


class KeyedProcessFunction(Function, ABC):
    """A process function on a keyed stream: ``open`` can ask for keyed state."""

    Context: TypeAlias = context.ProcessContext
    OnTimerContext: TypeAlias = context.OnTimerContext

    @abstractmethod
    def process_element(self, value: Any, ctx: context.ProcessContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records; state is that of ``ctx.get_current_key()``."""

    def on_timer(self, timestamp: int, ctx: context.OnTimerContext) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records, when a timer fires that was registered with
        ``ctx.timer_service()``; state is that of the timer's key, ``ctx.get_current_key()``."""


class ProcessBatchFunction(Function, ABC):
    """A function on the batches of a keyed stream: ``open`` can ask for keyed state."""

    @abstractmethod
    def process_batch(self, key: Any, values: list[Any]) -> Iterable[Any] | None:
        """Yield, or return an iterable of, records; None means none. State is that of ``key``.

        ``values`` are the records of the key in one batch, in order, at least one. The list
        belongs to the function.
        """


class SinkFunction(Function, ABC):
    """Takes the records that leave the job here, one at a time."""

    @abstractmethod
    def invoke(self, value: Any) -> Any:
        """Take one record."""


def find_attributes_fast(function: Any) -> None:
    """Have the attributes of a function object, or of that of a method, found as fast as they can
    be, however it was unpickled; anything else is left as it is."""
    if isinstance(function, ConvertedKey):
        function = function.key
    owner = getattr(function, "__self__", function)
    if isinstance(owner, Function | KeySelector):
        give_own_dictionary(owner)


def key_of_value(key_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the key selector of tuples ``(timestamp, value)``."""
    find_attributes_fast(key_of)
    return lambda record: key_of(record[1])
