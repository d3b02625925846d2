"""Sinks that collect records for the program, or print them."""

from __future__ import annotations

import sys
from typing import Any

from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.functions.context import RuntimeContext
from flinknet.operators.sink import Sink
from flinknet.state.checkpointed_function import (
    CheckpointedFunction,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flinknet.state.descriptors import ListStateDescriptor
from flinknet.state.operator_state import OperatorListState
from flinknet.texts import printable

__all__ = ["CollectSink", "PrintSink"]


class CollectSink(Sink[Any], CheckpointedFunction):
    """Returns the records to the program that runs the job, under the sink's name.

    The sink keeps its records in memory until the job ends. With a ``limit``, each subtask keeps
    its first ``limit`` records and ignores the rest. Without a limit, it keeps all. If a subtask
    keeps more than ``cluster.collect_records_max`` records, the job fails with a JobFailedError
    instead of returning an incomplete result.
    """

    def __init__(self, limit: int | None = None) -> None:
        if limit is not None and limit < 0:
            raise ConfigurationError(f"limit is {limit}: choose 0 or more records, or None")
        self._limit = limit
        self._saved: OperatorListState | None = None

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self._saved = store.get_list_state(ListStateDescriptor("collected"))

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        assert self._saved is not None, "it was initialized"
        self._saved.update(self._collected)

    def open(self, runtime_context: RuntimeContext) -> None:
        name = runtime_context.operator_name
        self._name = name
        self._records_max = runtime_context.collect_records_max
        self._collected = runtime_context.collected.setdefault(name, [])
        if self._saved is not None:
            # At a lower parallelism the state combines the records of several subtasks.
            self._collected += list(self._saved.get())[: self._limit]

    def write(self, records: list[Any]) -> None:
        if self._limit is not None:
            records = records[: max(0, self._limit - len(self._collected))]
        most = self._records_max
        if most is not None and len(self._collected) + len(records) > most:
            raise JobFailedError(
                f'collect sink "{self._name}" holds more than cluster.collect_records_max = '
                f"{most} records: give it a limit, write to files (JsonLinesSink), or raise that "
                "option"
            )
        self._collected += records


class PrintSink(Sink[Any]):
    """Prints records on the worker's standard output, with PyFlink's prefix ``identifier:2> ``.

    Control characters and characters that cannot be encoded are escaped, as in ``\\x1b``.
    """

    takes_whole_batches = False

    def __init__(self, identifier: str = "") -> None:
        self._identifier = identifier

    def open(self, runtime_context: RuntimeContext) -> None:
        many = runtime_context.parallelism > 1
        subtask = str(runtime_context.index + 1) if many else ""
        prefix = ":".join(filter(None, (self._identifier, subtask)))
        self._prefix = f"{prefix}> " if prefix else ""

    def write(self, records: list[Any]) -> None:
        lines = "".join(f"{self._prefix}{record}\n" for record in records)
        sys.stdout.write(printable(lines))
