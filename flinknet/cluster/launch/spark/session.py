"""The Spark session that clusters run on: the program's own, or one that is made for them.

``use`` names the program's session, which is never stopped here. Without it, a session is made with
``spark.master`` when the first cluster needs one. It stays for later clusters of the process, and
is stopped at the end of the process.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from flinknet import machine
from flinknet.config import FlinknetConfig
from flinknet.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "JAVA_VERSION_MIN",
    "close_session",
    "find_java",
    "is_local",
    "is_used",
    "session_of",
    "use",
]

JAVA_VERSION_MIN = 17
"""Spark 4 runs on Java 17 and later."""

_INSTALL_JAVA = (
    f"install a Java runtime {JAVA_VERSION_MIN} or later "
    "(Debian and Ubuntu: apt-get install default-jre-headless) or set JAVA_HOME to one"
)

_SETTINGS = {
    "spark.app.name": "flinknet",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.dynamicAllocation.enabled": "false",  # a barrier stage cannot have it
}
_LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
"""Settings of a master on this machine, which other machines need not reach."""

_MASTERS = re.compile(r"local$|local\[|local-cluster\[\d+, *\d+, *\d+\]$|(spark|k8s|sc)://|yarn$")

_used: list[SparkSession] = []
_made: list[SparkSession] = []


def use(session: SparkSession | None) -> None:
    """Run clusters on this session; None makes them run on a session of their own."""
    _used[:] = [] if session is None else [session]


def is_used() -> bool:
    """Return whether the program has named its session."""
    return bool(_used)


def session_of(config: FlinknetConfig) -> SparkSession:
    """Return the session in use, or make one. Raises ConfigurationError if that is impossible."""
    if _used:
        return _used[0]
    if not _made:
        _made.append(_make(config.spark.master))
        atexit.register(close_session)
    return _made[0]


def close_session() -> None:
    """Stop the session that was made, if there is one."""
    while _made:
        with suppress(Exception):  # its JVM may be gone
            _made.pop().stop()


def is_local(master: str) -> bool:
    """Return whether a master has its executors on this machine."""
    return re.match(r"local(\[|-cluster\[|$)", master) is not None


def find_java() -> Path:
    """Return the Java that Spark will use: ``JAVA_HOME`` first, then ``PATH``.

    Raises ConfigurationError with installation advice in one sentence if neither is suitable.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        where = f"JAVA_HOME={home} has no bin/java" if home else "no java on the PATH"
        raise ConfigurationError(f"Spark needs Java, and there is {where}: {_INSTALL_JAVA}")
    answer = subprocess.run([found, "-version"], capture_output=True, text=True, check=False)
    version = re.search(r'version "(\d+)', answer.stderr)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        said = (answer.stderr or answer.stdout).partition("\n")[0].strip() or "nothing"
        raise ConfigurationError(f"{found} is too old (it says: {said}): {_INSTALL_JAVA}")
    return Path(found)


def _make(master: str) -> SparkSession:
    if master and _MASTERS.match(master) is None:
        raise ConfigurationError(
            f'spark.master is "{master}", which is not a master: choose local[4], '
            "local-cluster[2,1,1024], spark://HOST:7077, yarn, k8s://https://HOST:6443, or "
            "sc://HOST of Spark Connect"
        )
    for module in ("pyspark", "pyarrow", "pandas"):
        if find_spec(module) is None:
            raise ConfigurationError(
                f"the module {module} is missing: run pip install 'flinknet[spark]'"
            )
    is_connect = master.startswith("sc://")
    if not is_connect:
        find_java()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if is_connect:
        builder = builder.remote(master)
    else:
        if master:
            builder = builder.master(master)
        settings = _SETTINGS | (_LOCAL_SETTINGS if is_local(master) else {})
        for name, value in settings.items():
            builder = builder.config(name, value)
        if is_local(master):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        with _interrupts_kept():
            return builder.getOrCreate()
    except ConfigurationError:
        raise
    except Exception as error:  # an error of py4j, of gRPC, or of Spark
        cause = str(error).strip().partition("\n")[0][:300] or type(error).__name__
        raise ConfigurationError(
            f'no Spark session could be started with master "{master or "of its configuration"}": '
            f"{cause}"
        ) from error


@contextmanager
def _interrupts_kept() -> Iterator[None]:
    """Keep the handler of Ctrl-C in this block.

    A session would replace it by a handler that cancels all jobs of Spark, including the workers,
    before the flinknet job can end.
    """
    if machine.current_thread() is not machine.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
