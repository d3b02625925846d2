"""Copies of records where several operators of one chain take the same ones.

Theory of operation. An operator gives away records to which it has no reference any more
(``records/detached.py``), so the one operator behind it may change and keep them. Where there are
several, all but the last one take copies of the records that can be changed, and writers serialise
before any of them. Flink copies records between all chained operators. With ``enable_object_reuse``
neither is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flinknet.records.detached import each_detached

__all__ = ["with_copies"]

T = TypeVar("T")


def with_copies(
    process: Callable[[list[Any]], T], fail: Callable[[Exception], Any]
) -> Callable[[list[Any]], T]:
    """Return a ``process`` that works on copies of the records that can be changed.

    ``fail`` gets the error of a record that cannot be copied.
    """

    def process_copies(records: list[Any]) -> T:
        try:
            records = list(each_detached(iter(records)))
        except Exception as error:
            fail(error)
        return process(records)

    return process_copies
