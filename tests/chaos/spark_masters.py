"""A standalone Spark cluster on loopback and a server of Spark Connect, from PySpark's files.

Its executors have a Python without flinknet.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from tests.free_port import free_port

__all__ = ["bare_python", "connect_server", "standalone"]

NEEDED = ("numpy", "pandas", "pyarrow", "dateutil", "pytz", "six", "tzdata")
"""Packages that PySpark needs in executors for functions of Arrow batches."""

LOOK_S = 0.05
PATIENCE_S = 100.0
"""Seconds after which a hanging test fails with a message."""


def bare_python(folder: Path) -> Path:
    """Make an environment with the packages of PySpark's functions, and no others."""
    venv.create(folder, with_pip=False, symlinks=True)
    (place,) = folder.glob("lib/python*/site-packages")
    for name in NEEDED:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            continue
        own = Path(spec.origin)
        source = own.parent if own.name == "__init__.py" else own
        (place / source.name).symlink_to(source)
        libraries = source.with_name(f"{source.name}.libs")
        if libraries.is_dir():
            (place / libraries.name).symlink_to(libraries)
    return folder / "bin" / "python"


@contextmanager
def standalone(folder: Path, python: Path) -> Iterator[str]:
    """Run a master and a worker of two cores; yield the master's address."""
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    with (
        _running(
            folder / "master.log",
            python,
            *("spark-class", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"),
            *("--port", str(port), "--webui-port", str(free_port())),
            until="elected leader",
        ),
        _running(
            folder / "worker.log",
            python,
            *("spark-class", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"),
            *("--cores", "2", "--memory", "2g", "--work-dir", str(folder / "work")),
            *("--webui-port", str(free_port()), master),
            until="Successfully registered with master",
        ),
    ):
        yield master


@contextmanager
def connect_server(folder: Path, python: Path, master: str) -> Iterator[str]:
    """Run a server of Spark Connect with executors at ``master``; yield its address."""
    port = free_port()
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    with _running(
        folder / "connect.log",
        python,
        *("spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", master),
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        "spark-internal",
        until="Spark Connect server started",
    ):
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _running(log: Path, python: Path, program: str, *arguments: str, until: str) -> Iterator[None]:
    """Run a program of PySpark until its log has a text, and kill it afterwards."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    with log.open("w") as file:
        process = subprocess.Popen(
            [str(home / "bin" / program), *arguments],
            cwd=log.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while until not in (said := log.read_text()):
            assert process.poll() is None, said[-2_000:]
            assert time.monotonic() < deadline, said[-2_000:]
            time.sleep(LOOK_S)
        yield
    finally:
        with suppress(ProcessLookupError):
            # The program is a shell script, which starts a JVM in the same session.
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
