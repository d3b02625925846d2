"""The Spark task with a worker as its child: it starts workers, and passes their output on.

It runs in a Python worker of an executor, where flinknet may be missing. Spark therefore pickles
this module by value, and the module imports only the standard library.

Theory of operation
-------------------
A task connects to the launcher (``task_links.py``), and reports its host and the flinknet that it
has found there. Each side proves with the other's nonce that it has a secret of the cluster. Then
the launcher sends commands in lines of JSON: ``start`` a worker, ``signal`` it, ``end`` the task.
The task reports the start of the worker, each line of its output, and its end. A task outlives its
worker, so Spark's stage goes on when another worker is started in place of a lost one.

A worker runs behind a keeper (``local/keeper.py``), in its own session. Spark kills Python workers
with SIGKILL. The keeper's standard input then ends, and it kills the worker and everything that
user code has started there. The same happens when the launcher's connection ends.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib.util
import json
import os
import platform
import runpy
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

__all__ = ["make_task", "proof", "run_agent"]

_LINE_BYTES_MAX = 64 * 1024
"""Maximum length of a worker's line; a longer line comes in pieces, as from a local child."""
_DRAIN_S = 0.5
"""Seconds for the rest of an ended worker's output.

A process that the worker has left behind may hold the pipe open.
"""
_CONNECT_S = 10.0
"""Seconds for the connection to the launcher and its proof."""
_END_S = 5.0
"""Seconds for a keeper to kill the processes that its worker has left behind."""


def make_task(settings: Mapping[str, Any]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function of the stage. ``settings`` are pickled with it:

    - ``stage``: the launcher's number of the stage;
    - ``address``: host and port of the launcher, and ``secret``, in hexadecimal digits;
    - ``tls``: None, or the files of a cluster with TLS on each machine, and the launcher's name;
    - ``shipped``: the name of an archive that has flinknet, or empty;
    - ``home`` and ``path``: the place of flinknet in the program, and its import path;
    - ``directory``: the working directory of workers, or empty for that of the executor;
    - ``start``, ``flags``: the program of a worker, and options of its interpreter;
    - ``variables``: environment variables of a worker;
    - ``libraries``: modules that a worker requires.
    """

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import BarrierTaskContext, SparkFiles

        for _ in batches:
            pass  # skip the row that made the task
        context = BarrierTaskContext.get()
        root = SparkFiles.getRootDirectory()
        run_agent(settings, context.partitionId(), root)
        yield from ()

    return task


def run_agent(settings: Mapping[str, Any], rank: int, root: str) -> None:
    """Carry out the launcher's commands until it ends the task.

    ``root`` is the directory in which Spark unpacks archives. Raises ConnectionError if the
    launcher is gone.
    """
    _Agent(settings, rank, root).run()


def proof(secret: bytes, side: str, nonce: str) -> str:
    """Return the proof for the sender of ``nonce`` that ``side`` has the secret."""
    return hmac.new(secret, f"{side} {nonce}".encode(), hashlib.sha256).hexdigest()


class _Agent:
    """One task, from its connection to the launcher on."""

    def __init__(self, settings: Mapping[str, Any], rank: int, root: str) -> None:
        self._settings = settings
        self._rank = rank
        self._home = _place_of_flinknet(settings, root)
        self._lock = threading.Lock()
        """Held while a line is sent, because several threads send."""
        self._worker: _Worker | None = None
        """The present worker, or the last one."""

    def run(self) -> None:
        host, port = self._settings["address"]
        with (
            socket.create_connection((host, port), _CONNECT_S) as plain,
            _secured(plain, self._settings["tls"]) as self._socket,
            self._socket.makefile("rb") as self._commands,
        ):
            self._shake_hands()
            self._socket.settimeout(None)
            try:
                self._obey()
            finally:
                if self._worker is not None:
                    self._worker.end()

    def _shake_hands(self) -> None:
        secret, nonce = bytes.fromhex(self._settings["secret"]), secrets.token_hex(16)
        self.send({"stage": self._settings["stage"], "rank": self._rank, "nonce": nonce})
        answer = self._read()
        if not hmac.compare_digest(answer["proof"], proof(secret, "launcher", nonce)):
            raise ConnectionError("the server at the launcher's address is not the launcher")
        # This machine reaches the coordinator from this address, so others reach the machine by it.
        address = self._socket.getsockname()[0]
        self.send(
            {
                "proof": proof(secret, "task", answer["nonce"]),
                "host": socket.gethostname(),
                "address": address,
                "pid": os.getpid(),
                "found": _found(self._home, self._settings["libraries"]),
            }
        )

    def _obey(self) -> None:
        while (command := self._read())["do"] != "end":
            if command["do"] == "start":
                self._start(command["worker"], command["arguments"], command["variables"])
            elif self._worker is not None:
                self._worker.signal(command["signal"])

    def _read(self) -> Any:
        line = self._commands.readline()
        if not line:
            raise ConnectionError("the program that started the flinknet cluster is gone")
        return json.loads(line)

    def send(self, news: Mapping[str, Any]) -> None:
        with self._lock:
            self._socket.sendall(json.dumps(news).encode() + b"\n")

    def tell(self, worker: str, event: str, **news: Any) -> None:
        """Report an event of a worker to the launcher; does nothing if the launcher is gone."""
        with suppress(OSError):
            self.send({"worker": worker, "event": event, **news})

    def _start(self, name: str, arguments: list[str], variables: Mapping[str, str]) -> None:
        if self._worker is not None:
            self._worker.end()
        path = [place for place in sys.path if place]
        path += [place for place in self._settings["path"] if place not in path]
        start = json.dumps([self._home, True, *path])
        keeper = os.path.join(  # noqa: PTH118 - as short as it can be
            self._home, "flinknet", "cluster", "launch", "local", "keeper.py"
        )
        program = [sys.executable, "-P", *self._settings["flags"], "-c", self._settings["start"]]
        try:
            self._worker = _Worker(
                self,
                name,
                [sys.executable, "-I", "-S", keeper],
                [*program, "flinknet.cluster.worker", start, "--watch-parent", *arguments],
                {**_inherited(), **self._settings["variables"], **variables},
                self._settings["directory"] or None,
            )
        except OSError as error:
            self.tell(name, "said", line=f"{sys.executable} cannot be started: {error}")
            self.tell(name, "exited", status=127)


def _secured(plain: socket.socket, tls: Mapping[str, Any] | None) -> socket.socket:
    """Return the connection, over TLS if the cluster uses it; OSError for a wrong launcher."""
    if tls is None:
        return plain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cafile=tls["authority"])
    context.load_cert_chain(tls["certificate"], tls["private_key"])
    connection = context.wrap_socket(plain, server_hostname=tls["name"])
    shown = connection.getpeercert(binary_form=True) or b""
    if tls["pinned"] and hashlib.sha256(shown).hexdigest() not in tls["pinned"]:
        connection.close()
        raise ConnectionError("the launcher's certificate is not a pinned one")
    return connection


class _Worker:
    """A worker behind its keeper."""

    def __init__(
        self,
        agent: _Agent,
        name: str,
        keeper: list[str],
        command: list[str],
        environment: Mapping[str, str],
        directory: str | None,
    ) -> None:
        self._agent = agent
        self._name = name
        reading, report = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*keeper, str(report), *command],
                cwd=directory,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=[report],
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(report)
        # The keeper reports no id if the worker has ended at once.
        self._pid = int(os.read(reading, 32) or self._process.pid)
        os.close(reading)
        agent.tell(name, "started", pid=self._pid)
        self._pumps = [
            threading.Thread(target=self._pump, args=(stream, event), daemon=True)
            for stream, event in ((self._process.stdout, "printed"), (self._process.stderr, "said"))
        ]
        self._waiter = threading.Thread(target=self._wait, daemon=True)
        for thread in (*self._pumps, self._waiter):
            thread.start()

    def signal(self, number: int) -> None:
        """Send SIGKILL to the worker's group, or any other signal to the worker."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                if number == signal.SIGKILL:
                    os.killpg(self._pid, number)
                else:
                    os.kill(self._process.pid, number)

    def end(self) -> None:
        """End the worker and everything that it has started, and report its end."""
        self._close_stdin()
        self._waiter.join(_END_S)
        if self._waiter.is_alive():
            self._process.kill()
            self._waiter.join(_END_S)

    def _close_stdin(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()

    def _pump(self, stream: BinaryIO, event: str) -> None:
        rest = b""
        with stream:
            while data := os.read(stream.fileno(), _LINE_BYTES_MAX):
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > _LINE_BYTES_MAX:
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    self._agent.tell(self._name, event, line=line.decode(errors="replace"))
        if rest:
            self._agent.tell(self._name, event, line=rest.decode(errors="replace"))

    def _wait(self) -> None:
        status = self._process.wait()
        self._close_stdin()
        for pump in self._pumps:
            pump.join(_DRAIN_S)
        self._agent.tell(self._name, "exited", status=status)


def _inherited() -> dict[str, str]:
    """Return the executor's environment without variables of Spark and of this Python worker."""
    own = ("FLINKNET_", "PYTHON", "PYSPARK_", "_PYSPARK_")
    return {name: value for name, value in os.environ.items() if not name.startswith(own)}


def _place_of_flinknet(settings: Mapping[str, Any], root: str) -> str:
    """Return the place of flinknet on this machine: a directory, an archive, or empty for none."""
    if settings["shipped"]:
        return os.path.join(os.path.abspath(root), settings["shipped"])  # noqa: PTH100, PTH118
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec("flinknet")
        if spec is not None and spec.origin is not None:
            return os.path.dirname(os.path.dirname(spec.origin))  # noqa: PTH120
    home = str(settings["home"])
    is_here = os.path.isfile(os.path.join(home, "flinknet", "__init__.py"))  # noqa: PTH113, PTH118
    return home if is_here else ""


def _found(home: str, libraries: list[str]) -> dict[str, Any]:
    """Return the facts that the launcher compares with those of the program."""
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": sysconfig.get_platform(),
        "executable": sys.executable,
        "home": home,
        "version": "",
        "implementation": "",
        "reason": "",
        "missing": [],
    }
    package = os.path.join(home, "flinknet")  # noqa: PTH118
    before, path = sys.meta_path[:], sys.path[:]
    try:
        if home and os.path.isdir(package):  # noqa: PTH112
            version = runpy.run_path(f"{package}/version.py")
            compiled = runpy.run_path(f"{package}/compiled_modules.py")
            facts["version"] = version["__version__"]
            facts["implementation"] = compiled["IMPLEMENTATION"]
            facts["reason"] = compiled["REASON"]
        sys.path[:0] = [home]
        importlib.invalidate_caches()
        facts["missing"] = [name for name in libraries if importlib.util.find_spec(name) is None]
    finally:
        sys.meta_path[:], sys.path[:] = before, path
    return facts
