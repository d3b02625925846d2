"""Spark sessions of a test's own, beside the session that other tests share.

PySpark keeps one context per process in class attributes. The context of ``tests/unit/demo`` stays
until all tests have ended. It is set aside while another session, with its own JVM, exists.
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
    """Run a session as ``spark_session`` does, even if another session exists."""
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
        # PySpark would return the kept context in place of a new one.
        setattr(owner, name, None)
    try:
        with spark_session(log_file, *master) as session:
            yield session
    finally:
        for (owner, name), value in zip(kept, before, strict=True):
            setattr(owner, name, value)
