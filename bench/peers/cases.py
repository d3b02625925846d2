"""The cases of the family ``peers``: the cases of ``exchange``, and some for peers only."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from bench.exchange.cases import orders, payloads, single_integers, small_tuples
from bench.harness.case import Block, Case

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["CASES", "COLUMNAR", "KEYBY", "PING_PONG", "RECORD_CASES", "is_keyed"]

ROWS_PER_BATCH = 8192
BATCHES = 8


def make_batches() -> Block:
    """Draw the rows of ``tuple`` as columns: 16 bytes a row, 128 KiB a batch."""
    import pyarrow as pa

    random = Random(4)
    rows = range(ROWS_PER_BATCH)
    return [
        pa.record_batch(
            {
                "key": pa.array([random.randrange(small_tuples.KEYS) for _ in rows], pa.int32()),
                "value": pa.array([random.getrandbits(31) for _ in rows], pa.int32()),
                "weight": pa.array([random.random() for _ in rows], pa.float64()),
            }
        )
        for _ in range(BATCHES)
    ]


def sum_of_values(batch: pa.RecordBatch) -> int:
    """Add up one column, which is the work of a columnar consumer."""
    import pyarrow.compute as pc

    total: int = pc.sum(batch.column("value")).as_py()
    return total


MEBIBYTE = replace(
    payloads.KIBIBYTE,
    name="bytes-1m",
    summary="1 MiB of bytes, 33 buffers",
    make_block=partial(payloads.make_block, 1 << 20),
)
RECORD_CASES: tuple[Case, ...] = (
    replace(small_tuples.CASE, summary="(int, int, float), from one source to one sink"),
    single_integers.CASE,
    payloads.KIBIBYTE,
    payloads.BUFFER_SIZED,
    MEBIBYTE,
    orders.CASE,
)
KEYBY = replace(
    small_tuples.CASE,
    name="keyby",
    summary="the same, keyed: two workers, each a source and a sink, all to all",
)
COLUMNAR = Case(
    name="columnar",
    summary="Arrow record batches of 8,192 rows, 128 KiB",
    make_block=make_batches,
    weigh=sum_of_values,
)
PING_PONG = replace(
    small_tuples.CASE, name="pingpong", summary="one record of `tuple` back and forth"
)

CASES: tuple[Case, ...] = (*RECORD_CASES, KEYBY, COLUMNAR, PING_PONG)


def is_keyed(case: Case) -> bool:
    """Return whether two workers with a source and a sink each exchange the records by key."""
    return case.key is not None and case not in (*RECORD_CASES, PING_PONG)
