"""The keyed exchange of columns: Arrow record batches, split by the keys of their rows.

No row becomes a Python object. The channels of all rows are computed at once. The rows are then
ordered by channel in one stable sort, and the part of each channel is a slice of the result.
Channels of keys that are not numbers are remembered, as the record partitioners remember them.
Needs ``flinknet[arrow]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flinknet.config import REMEMBERED_KEYS_BYTES
from flinknet.errors import ConfigurationError, SerializationError
from flinknet.records.columns.row_channels import row_channels
from flinknet.records.key_groups import check_key_groups, key_group, operator_index
from flinknet.records.partitioner import Partitioner
from flinknet.records.remembered_channels import RememberedChannels

__all__ = ["ColumnHashPartitioner"]


class ColumnHashPartitioner(Partitioner):
    """Partitioner by the key group of each row's key, the values in ``columns``.

    Each channel receives its rows as one batch. ``HashPartitioner`` sends a record with the same
    key to the same channel. The key of several columns is the tuple of their values.

    The parts of a batch are separate records. If one part cannot be written, or the batch itself
    exceeds ``record_bytes_max``, no part is written. A cancelled ``emit`` may have written some of
    the parts, each whole or not at all. Only a part longer than a buffer may be torn, as any record
    may.
    """

    cuts_records = True

    def __init__(self, *columns: str, max_parallelism: int = 128) -> None:
        if not columns:
            raise ConfigurationError("a keyed exchange of columns needs at least one column name")
        self._columns = columns
        self._max_parallelism = max_parallelism
        self._remembered = RememberedChannels(_itself, self._owner, REMEMBERED_KEYS_BYTES)

    def setup(self, channels: int, *, subtask_index: int = 0, parallelism: int = 1) -> None:
        """Check that there is a key group for every channel."""
        check_key_groups(channels, self._max_parallelism)
        super().setup(channels)
        self._remembered.forget()
        groups = range(self._max_parallelism)
        self._channel_of_group = np.array(
            [operator_index(group, self._max_parallelism, channels) for group in groups],
            np.min_scalar_type(channels),
        )

    def select(self, record: Any) -> int:
        """Raise AssertionError: a batch has rows for many channels."""
        raise AssertionError("a keyed exchange of columns does not select a channel")

    def cut(self, record: Any) -> dict[int, pa.RecordBatch]:
        """Return the batch of each channel that receives rows.

        Raises SerializationError for a record that is not an Arrow record batch, a batch without a
        key column, a key that cannot be hashed, and a column that Arrow cannot reorder.
        """
        if not isinstance(record, pa.RecordBatch):
            raise SerializationError(
                f"a keyed exchange of columns takes Arrow record batches, not a record of type "
                f"{type(record).__name__}"
            )
        channels = row_channels(
            [self._column(record, name) for name in self._columns],
            self._channel_of_group,
            self._remembered.select,
        )
        rows = np.bincount(channels, minlength=self.channels).tolist()
        if record.num_rows in rows:  # all rows have one channel, so nothing is copied
            return {rows.index(record.num_rows): record} if record.num_rows else {}
        ordered = self._in_order(record, np.argsort(channels, kind="stable"))
        parts = {}
        start = 0
        for channel, count in enumerate(rows):
            if count:
                parts[channel] = ordered.slice(start, count)
                start += count
        return parts

    def remember_at_most(self, memory_bytes: int) -> None:
        """Limit the memory of the remembered channels."""
        self._remembered.memory_bytes = memory_bytes

    def _owner(self, key: Any) -> int:
        return int(self._channel_of_group[key_group(key, self._max_parallelism)])

    @staticmethod
    def _in_order(batch: pa.RecordBatch, rows: npt.NDArray[np.intp]) -> pa.RecordBatch:
        try:
            return batch.take(pa.array(rows))
        except pa.ArrowException as cause:
            raise SerializationError(
                f"an Arrow record batch cannot be split: {cause}; its columns are of the types "
                f"{', '.join(map(str, batch.schema.types))}"
            ) from cause

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        places = batch.schema.get_all_field_indices(name)
        if len(places) != 1:
            raise SerializationError(
                f'an Arrow record batch has {len(places) or "no"} columns "{name}", which is the '
                f"key of the exchange; its columns are {', '.join(batch.schema.names)}"
            )
        return batch.column(places[0])


def _itself(key: Any) -> Any:
    return key
