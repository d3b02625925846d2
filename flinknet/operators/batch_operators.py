"""Operators that call their function with a whole batch, or with the records of a key in a batch.

The size of a batch is not guaranteed: a batch holds the records of one network buffer, or the
records that the previous operator emitted together. So the combined results of all batches should
not depend on the boundaries between batches. Results may be any kind of iterable and are taken in
pieces, as in ``operators.py``.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from flinknet.functions.calls import records_in
from flinknet.operators.keyed_operators import StatefulOperator
from flinknet.operators.operators import FunctionOperator, on_records
from flinknet.operators.timestamped_batch import (
    Batch,
    ResultTimestamps,
    TimestampedBatch,
    as_pairs,
    latest,
    no_timestamps,
    same,
    values_of,
)
from flinknet.records.key_normalization import comparable_key
from flinknet.records.record_iterator import ArrivedRecords

__all__ = ["MapBatchOperator", "ProcessBatchOperator"]

Groups = dict[Any, TimestampedBatch]
"""The records of a batch by key; keys and records keep the order of the batch."""


class MapBatchOperator(FunctionOperator):
    """Map each batch of records to any number of records."""

    iterates_once = False
    takes_whole_batches = True

    def __init__(self, function: Any) -> None:
        super().__init__(function, "map_batch")
        self.process = self._process_whole

    async def _process_whole(self, records: Batch) -> None:
        values, stamps = values_of(records), no_timestamps
        if isinstance(records, TimestampedBatch):
            # Other receivers may share the batch. A function that sorts its list must not move
            # their values beside other timestamps.
            values, stamps = values.copy(), same(latest(records.stamps))
        await self._emit_results(partial(on_records, values), self._call, values, stamps=stamps)


class ProcessBatchOperator(StatefulOperator):
    """Map the records of each key in a batch to any number of records, with keyed state.

    The results of a plain function are emitted together for several keys. The results of a
    coroutine function are emitted as soon as they are ready.
    """

    takes_whole_batches = True

    def __init__(self, function: Any, key_of: Callable[[Any], Any]) -> None:
        super().__init__(function, "process_batch", key_of)

    async def _process_batch(self, records: Any) -> None:
        groups, noted = self._by_key(records), ResultTimestamps()
        on_key = partial(self._on_key, groups)
        await self._emit_results(on_key, self._results, groups, noted, stamps=noted.take)

    async def _process_each(self, records: Batch) -> None:
        groups = self._by_key(records)
        on_key = partial(self._on_key, groups)
        view = self._context.process_context
        for key, group in groups.items():
            view.current_key = key
            stamps = same(latest(group.stamps))
            await self._emit_results(on_key, self._call, key, group.values, stamps=stamps)

    def _by_key(self, records: Batch | ArrivedRecords) -> Groups:
        key_of = self._key_of
        groups: Groups = {}
        for stamp, record in as_pairs(records):
            try:
                key = key_of(record)
                try:
                    group = groups[key]
                except (KeyError, TypeError):
                    group = groups.setdefault(comparable_key(key), TimestampedBatch([], []))
                group.values.append(record)
                # Only ``latest`` reads these timestamps, so they need not match the values.
                if stamp is not None:
                    group.stamps.append(stamp)
            except BaseException as error:
                self.fail(error, on_records((record,)))
        return groups

    def _results(self, groups: Groups, noted: ResultTimestamps) -> Iterator[Any]:
        call, view = self._call, self._context.process_context
        for key, group in groups.items():
            view.current_key = key
            results = records_in(call(key, group.values))
            if self.is_timestamped:
                results = noted.with_timestamp(latest(group.stamps), results)
            yield from results

    def _on_key(self, groups: Groups) -> str:
        key = self._context.process_context.current_key
        return f"{on_records(groups[key].values)} with the key {reprlib.repr(key)}"
