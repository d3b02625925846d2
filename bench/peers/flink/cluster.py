"""A Flink cluster that runs one job: a JobManager and two TaskManagers, processes of this machine.

Theory of operation. The JobManager runs the job's ``main`` itself (application mode) and ends with
the job. Each TaskManager has one slot. It is pinned to its CPU before its JVM starts, so that the
JVM sizes itself for one CPU. Flink decides which slot gets which task. Once all tasks run, the REST
API tells their places. If source and sink are the wrong way round, the two processes swap their
CPUs with all their threads. Every process ends when its standard input does, so none is left behind
in any case.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple, Self
from urllib.error import URLError
from urllib.request import urlopen

from bench.errors import BenchError
from bench.harness.pinning import Pinning
from bench.peers.flink.installation import Installation

__all__ = ["HEAP", "NETWORK", "FlinkCluster", "Placement"]

Placement = dict[str, list[str]]
"""The TaskManager of each subtask, by the name of the vertex."""

HOST = "127.0.0.1"
START_S_MAX = 120.0
END_S_MAX = 30.0
EXIT_S_MAX = 5.0
POLL_S = 0.1
LOG_LINES = 3

NETWORK = {
    "taskmanager.memory.network.min": "64mb",
    "taskmanager.memory.network.max": "64mb",
    "taskmanager.memory.segment-size": "32kb",
    "taskmanager.network.memory.buffers-per-channel": "2",
    "taskmanager.network.memory.floating-buffers-per-gate": "8",
    "execution.buffer-timeout.interval": "100ms",
}
"""Flink's own defaults, except the memory, which is the same as flinknet's."""

LARGE_BUFFERS = {**NETWORK, "taskmanager.memory.segment-size": "128kb"}
"""Settings with buffers that four records of 32 KiB nearly fill; Flink requires powers of two."""

TASK_MANAGER = {
    "taskmanager.host": HOST,
    "taskmanager.bind-host": HOST,
    "taskmanager.numberOfTaskSlots": "1",
    "taskmanager.cpu.cores": "1",
    "taskmanager.memory.task.heap.size": "768mb",
    "taskmanager.memory.task.off-heap.size": "0",
    "taskmanager.memory.managed.size": "0",
    "taskmanager.memory.framework.heap.size": "128mb",
    "taskmanager.memory.framework.off-heap.size": "128mb",
    "taskmanager.memory.jvm-metaspace.size": "256mb",
    "taskmanager.memory.jvm-overhead.min": "192mb",
    "taskmanager.memory.jvm-overhead.max": "192mb",
}
HEAP = ("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=256m")
JOB_MANAGER_JVM = ("-Xmx512m", "-XX:+UseSerialGC")

JOB_MANAGER_MAIN = "org.apache.flink.container.entrypoint.StandaloneApplicationClusterEntryPoint"
TASK_MANAGER_MAIN = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"

OPENED = ("lang", "net", "io", "nio", "lang.reflect", "text", "time", "util", "util.concurrent")
OPENS = tuple(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENED)
"""The packages that Flink's own start scripts open."""

LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = CONSOLE
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


class Settings(NamedTuple):
    """The settings of a variant for the cluster."""

    jvm: tuple[str, ...]
    network: Mapping[str, str] = NETWORK


class FlinkCluster:
    """Processes that live from ``__enter__`` to ``__exit__``; their files are in ``directory``."""

    def __init__(
        self,
        installation: Installation,
        directory: Path,
        pinning: Pinning,
        settings: Settings,
        job: Sequence[str],
    ) -> None:
        self._installation = installation
        self._directory = directory
        self._pinning = pinning
        self._network = settings.network
        self._task_manager_jvm = (*HEAP, *settings.jvm)
        self._job = job
        self._rest_port = 0
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        (self._directory / "config.yaml").touch()
        (self._directory / "log4j.properties").write_text(LOGGING)
        rpc_port, self._rest_port = _free_ports(2)
        shared = {
            "jobmanager.rpc.address": HOST,
            "jobmanager.rpc.port": str(rpc_port),
            **self._network,
        }
        job_manager = {
            **shared,
            "jobmanager.bind-host": HOST,
            "rest.address": HOST,
            "rest.bind-address": HOST,
            "rest.port": str(self._rest_port),
        }
        job = ["--job-classname", "ExchangeJob", *self._job]
        self._start("JobManager", None, JOB_MANAGER_JVM, JOB_MANAGER_MAIN, job_manager, job)
        for name, cpu in self._pinning._asdict().items():
            own = {**shared, **TASK_MANAGER, "taskmanager.resource-id": name}
            self._start(name, cpu, self._task_manager_jvm, TASK_MANAGER_MAIN, own, [])
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes.values():
            try:
                process.wait(EXIT_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def place(self) -> Placement:
        """Wait until every task runs, put each on its CPU, and return their places."""
        deadline = monotonic() + START_S_MAX
        while (placement := self._placement()) is None:
            self._require_alive()
            if monotonic() > deadline:
                raise BenchError(
                    f"Flink's tasks do not run after {START_S_MAX:.0f} s{self._logs()}"
                )
            sleep(POLL_S)
        if placement["source"] == ["consumer"]:
            _move(self._processes["producer"].pid, self._pinning.consumer)
            _move(self._processes["consumer"].pid, self._pinning.producer)
        return placement

    def join(self, seconds: float) -> None:
        """Wait for the end of a job that takes ``seconds``. Raises BenchError if it fails."""
        try:
            code = self._processes["JobManager"].wait(seconds + END_S_MAX)
        except subprocess.TimeoutExpired:
            raise BenchError(f"the Flink job does not end{self._logs()}") from None
        if code:
            raise BenchError(f"the Flink job has failed{self._logs()}")

    def _start(
        self,
        name: str,
        cpu: int | None,
        jvm: Sequence[str],
        main: str,
        options: Mapping[str, str],
        arguments: Sequence[str],
    ) -> None:
        dynamic = [f"-D{option}={value}" for option, value in options.items()]
        command = [
            self._installation.java,
            *jvm,
            *OPENS,
            f"-Dlog4j.configurationFile={self._directory / 'log4j.properties'}",
            f"-Djava.io.tmpdir={self._directory}",
            *("-cp", self._installation.class_path, "Attached", main),
            *("--configDir", str(self._directory), *dynamic, *arguments),
        ]
        with _started_on(cpu), (self._directory / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT
            )

    def _placement(self) -> Placement | None:
        """Return the places of the tasks; None until all of them run."""
        try:
            jobs = self._ask("/jobs")["jobs"]
            if not jobs:
                return None
            vertices = self._ask(f"/jobs/{jobs[0]['id']}")["vertices"]
            if {vertex["status"] for vertex in vertices} != {"RUNNING"}:
                return None
            return {
                vertex["name"].removeprefix("Source: ").removeprefix("Sink: "): [
                    subtask["taskmanager-id"]
                    for subtask in self._ask(f"/jobs/{jobs[0]['id']}/vertices/{vertex['id']}")[
                        "subtasks"
                    ]
                ]
                for vertex in vertices
            }
        except (URLError, ConnectionError):
            return None

    def _ask(self, path: str) -> Any:
        with urlopen(f"http://{HOST}:{self._rest_port}{path}", timeout=START_S_MAX) as answer:
            return json.load(answer)

    def _require_alive(self) -> None:
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise BenchError(f"Flink's {name} has ended{self._logs()}")

    def _logs(self) -> str:
        """Return the last logged cause of each process, or its last lines if there is none."""
        texts = []
        for name in self._processes:
            lines = (self._directory / f"{name}.log").read_text(errors="replace").splitlines()
            causes = [line for line in lines if line.startswith("Caused by: ")]
            texts += [f"\n{name}: {line}" for line in causes[-1:] or lines[-LOG_LINES:]]
        return "".join(texts)


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server((HOST, 0)) for _ in range(count)]
    try:
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


@contextmanager
def _started_on(cpu: int | None) -> Iterator[None]:
    """Let the processes that start in this block inherit a CPU from the calling thread."""
    if cpu is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _move(pid: int, cpu: int | None) -> None:
    """Pin every thread of a process to another CPU; new threads inherit it."""
    if cpu is not None:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(ProcessLookupError):  # the thread has just ended
                os.sched_setaffinity(int(thread.name), {cpu})
