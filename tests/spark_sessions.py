"""Sessions of Spark for tests that want one of their own, beside one that other tests keep.

PySpark has one context in a process, which it keeps in its classes. That of ``tests/unit/demo``
stays until all tests have ended, so it is put aside while another session with a JVM of its own is
there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinknet.demo.spark_session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["own_session"]


@contextmanager
def own_session(log_file: Path, *master: str) -> Iterator[SparkSession]:
    """Run a session as ``spark_session`` does, whatever other one there is."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    kept: list[tuple[Any, str]] = [
        (SparkContext, "_active_spark_context"),
        (SparkContext, "_gateway"),
        (SparkContext, "_jvm"),
        (SparkSession, "_instantiatedSession"),
    ]
    before = [getattr(owner, name) for owner, name in kept]
    for owner, name in kept:
        setattr(owner, name, None)
    try:
        with spark_session(log_file, *master) as session:
            yield session
    finally:
        for (owner, name), value in zip(kept, before, strict=True):
            setattr(owner, name, value)
