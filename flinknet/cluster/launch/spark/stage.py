"""The launcher's calls to a Spark session, classic or Connect: slots, settings, a stage.

Theory of operation
-------------------
A stage is one call, ``spark.range(...).mapInArrow(..., barrier=True).collect()``, that waits in a
thread for its tasks. It ends when all tasks have ended, or with an error when one is lost: Spark
does not retry it. Another thread can cancel it by its tag. Everything here blocks, so the launcher
calls it in threads.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flinknet import machine
from flinknet.cluster.launch.spark import agent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Spark", "Stage", "described"]

_CAUSE_CHARACTERS_MAX = 400
_PARTITIONS_OF_A_LOOK = 4096
"""Numbers that a Connect session distributes, to count its partitions."""

_CAUSES = (
    re.compile(r"\[PYTHON_VERSION_MISMATCH\] [^\n]+"),
    re.compile(r"\[SPARK-\d+\][^\n]+"),
    re.compile(r"ExecutorLostFailure[^\n]+"),
    re.compile(r"Most recent failure reason: ([^\n]+(?:\n(?!\s+at )[^\n]+)?)"),
    re.compile(r"Job aborted due to stage failure: ([^\n]+)"),
    re.compile(r"\bJob \d+ cancelled[^\n]*"),
)
"""Patterns that explain the end of a stage, the best explanation first."""


class Spark:
    """A Spark session."""

    def __init__(self, session: SparkSession) -> None:
        self.session: Any = session
        self.is_connect = "connect" in type(session).__module__

    def setting(self, name: str, default: str = "") -> str:
        """Return a setting of the session or its cluster."""
        return str(self.session.conf.get(name, default))

    def master(self) -> str:
        """Return the master's address; with Connect the server's."""
        if self.is_connect:
            return f"sc://{self.session.client.host}"
        return str(self.session.sparkContext.master)

    def is_gone(self) -> bool:
        """Return whether the session has been stopped."""
        if self.is_connect:
            return bool(self.session.is_stopped)
        try:
            context = self.session.sparkContext
            return context._jsc is None or bool(context._jsc.sc().isStopped())
        except Exception:  # an error of py4j: its JVM has ended
            return True

    def slots(self) -> int:
        """Return how many tasks can run side by side, as Spark counts them for a barrier stage."""
        if self.is_connect:
            from pyspark.sql import functions as F

            numbers = self.session.range(_PARTITIONS_OF_A_LOOK)
            return int(numbers.select(F.spark_partition_id()).distinct().count())
        context = self.session.sparkContext._jsc.sc()
        profile = context.resourceProfileManager().defaultResourceProfile()
        return int(context.maxNumConcurrentTasks(profile))

    def add_archive(self, path: str, name: str) -> None:
        """Let executors unpack an archive in a directory of that name."""
        self.session.addArtifacts(f"{path}#{name}", archive=True)

    def run(self, count: int, task: Callable[[Iterator[Any]], Iterator[Any]], tag: str) -> None:
        """Run a barrier stage to its end."""
        import pyspark.cloudpickle

        # Executors may have no flinknet to import the module from.
        pyspark.cloudpickle.register_pickle_by_value(agent)  # type: ignore[no-untyped-call]
        if self.is_connect:
            self.session.addTag(tag)
        else:
            context = self.session.sparkContext
            context.addJobTag(tag)
            context.setJobDescription("workers of flinknet")
        rows = self.session.range(0, count, 1, count)
        rows.mapInArrow(task, "rank int", barrier=True).collect()

    def cancel(self, tag: str) -> None:
        """Cancel a stage; nothing happens if it has ended."""
        with suppress(Exception):  # the session may be gone, and the stage with it
            if self.is_connect:
                self.session.interruptTag(tag)
            else:
                self.session.sparkContext.cancelJobsWithTag(tag)


class Stage:
    """One stage in its own thread; make it in an event loop."""

    def __init__(
        self,
        spark: Spark,
        number: int,
        count: int,
        task: Callable[[Iterator[Any]], Iterator[Any]],
        tag: str,
    ) -> None:
        self.number = number
        self.tag = tag
        self.error: Exception | None = None
        """The error that ended it; None if all its tasks have ended."""
        self.ended = asyncio.Event()
        self._spark = spark
        self._loop = asyncio.get_running_loop()
        self._arguments = count, task, tag
        self._thread = machine.Thread(target=self._run, name=tag, daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Let Spark kill the tasks; blocks until Spark knows."""
        self._spark.cancel(self.tag)

    def _run(self) -> None:
        try:
            self._spark.run(*self._arguments)
        except Exception as error:  # an error of py4j, of gRPC, or of Spark
            self.error = error
        # The event loop is closed by now if the program has not waited for the stage.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.ended.set)


def described(error: Exception | None) -> str:
    """Return why a stage has ended, without the stacks of Spark."""
    text = str(error or "all its tasks have ended")
    for cause in _CAUSES:
        if found := cause.search(text):
            text = found[found.lastindex or 0]
            break
    else:
        text = text.strip().partition("\n")[0]
    text = " ".join(text.split()).partition(" Consider setting ")[0]
    return text if len(text) <= _CAUSE_CHARACTERS_MAX else f"{text[:_CAUSE_CHARACTERS_MAX]} ..."
