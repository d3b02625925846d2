"""The reason of a stage's end, in a few words.

`tests/contract/test_launchers.py` runs real stages.
"""

from __future__ import annotations

import pytest

from flinknet.cluster.launch.spark.stage import described

LOST = """An error occurred while calling o1.getResult.
: org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover from a \
failed barrier ResultStage. Most recent failure reason: Stage failed because barrier task \
ResultTask(0, 1) finished unsuccessfully.
ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command exited
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2)
"""
PYTHON = """PythonException:
  An exception was thrown from the Python worker. Please see the stack trace below.
pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has \
different version: 3.13 than that in driver: 3.11, PySpark cannot run with different minor versions.
Please check environment variables PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON are correctly set.
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (LOST, "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason"),
        (PYTHON, "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.13 than"),
        (
            "org.apache.spark.SparkException: Job 3 cancelled part of cancelled job tags",
            "Job 3 can",
        ),
        ("it went wrong\n\tat somewhere", "it went wrong"),
        ("x" * 10_000, "x" * 400),
    ],
)
def test_an_error_of_spark_is_told_without_its_stacks(text: str, cause: str) -> None:
    told = described(RuntimeError(text))
    assert told.startswith(cause)
    assert len(told) <= 404
    assert "\n" not in told


def test_a_stage_without_an_error_has_run_to_its_end() -> None:
    assert described(None) == "all its tasks have ended"
