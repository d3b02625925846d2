"""The child processes of this process that belong to a cluster, including the coordinator.

Theory of operation
-------------------
A child gets this process's environment with the cluster token, the hash seed (``hash_seed.py``) and
the whole configuration. It lives from its start until ``stop`` has waited for it: SIGTERM, then
SIGKILL after ``stop_timeout_ms``. If this process is killed itself, ``parent_watch.py`` ends the
children. Processes that user code has started in a worker end with the worker in each of these
cases (``keeper.py``).

A child imports its own modules before it searches a directory of the program, because a user's file
called ``attr.py`` must not replace the library. ``-P`` therefore keeps the working directory out of
the child's ``sys.path``, and entries that only the program's path has go to the end. After a worker
has imported its modules, it takes the program's path unchanged, because its jobs import the same
modules as the program. The coordinator runs no user code and keeps its own path. A worker gets
those options of this interpreter that change the behaviour of a program, such as ``-O`` and ``-W``.
Warning filters that the program has set since come with its jobs.

The launcher listens for the coordinator and hands it the socket, so workers can start at once. The
kernel queues their connections until the coordinator, which imports its modules meanwhile, accepts
them.

The coordinator keeps its jobs in a directory of the launcher, unless the configuration names one or
allows no replacement of a coordinator.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

from flinknet import machine
from flinknet.cluster.control.credentials import TOKEN_VARIABLE
from flinknet.cluster.control.hash_seed import SEED_VARIABLE
from flinknet.cluster.launch.local.child_process import ChildProcess, describe_exit
from flinknet.cluster.launch.local.memory_kills import MemoryKills
from flinknet.cluster.launch.process_output import COORDINATOR, OnOutput
from flinknet.cluster.launch.protocol import Exit
from flinknet.compiled_modules import PURE_VARIABLE
from flinknet.config import ClusterConfig, FlinknetConfig
from flinknet.config.loading import VARIABLE_PREFIX, options
from flinknet.config.locked_directory import LockedDirectory, remove_leftovers
from flinknet.config.temporary_directory import temporary_directory
from flinknet.errors import JobError
from flinknet.net.address import is_any_address, reached_at

__all__ = [
    "HOME",
    "START",
    "Children",
    "import_path",
    "interpreter_flags",
    "process_variables",
]

_JOBS = "flinknet-jobs-"
"""Prefix of the directories in which coordinators keep their jobs."""

START = """\
import gc, importlib, json, sys
gc.disable()
home, takes_path, *path = json.loads(sys.argv.pop(2))
own = sys.path if home in sys.path else [home, *sys.path]
sys.path[:] = [*own, *(place for place in path if place not in own)]
main = importlib.import_module(sys.argv.pop(1) + ".__main__").main
gc.enable()
if takes_path:
    sys.path[:] = path
sys.exit(main())
"""
"""The program of a child.

Its arguments are the package of the process, and a list in JSON: the place of flinknet, whether the
child takes the program's path, and that path. The garbage collector is off during the imports:
nearly all objects that they make stay, so collections would find nothing and take a tenth of the
time.
"""

HOME = str(Path(__file__).parents[4])
"""The directory, or the archive, that contains the package."""


class Children:
    """The processes of one cluster that this process has started; ``stop`` must be awaited."""

    def __init__(
        self,
        config: FlinknetConfig,
        token: str,
        on_output: OnOutput,
        on_exit: Callable[[Exit], None],
    ) -> None:
        """See ``MakeLauncher``; ``on_exit`` gets the ends that ``stop`` does not cause."""
        self._config = config
        self._token = token
        self._on_output = on_output
        self._on_exit = on_exit
        self._jobs: LockedDirectory | None = None
        """The coordinator's directory of jobs; None until it is needed."""
        self._memory_kills = MemoryKills()
        self.running: dict[str, ChildProcess] = {}
        """The children by name; an ended child stays here until another takes its place."""
        self._reports: set[asyncio.Task[None]] = set()
        """Tasks that report the ends of children."""

    def pids(self) -> dict[str, int]:
        """Return the process id of each child, by name."""
        return {name: child.pid for name, child in self.running.items()}

    async def start_coordinator(
        self, on_news: Callable[[str], None], port: int | None = None
    ) -> None:
        """Start a coordinator; ``on_news`` gets the lines that it prints.

        ``on_news`` also gets the address of the socket that is made for the coordinator. If that
        socket cannot be made, the coordinator makes its own, and reports the error.
        """
        if COORDINATOR in self.running:
            await self.running[COORDINATOR].stop(0.0)
        variables = {}
        if port is not None:
            variables[options()["cluster.coordinator_port"].variable] = str(port)
        arguments = []
        directory = self._directory_of_jobs()
        if directory is not None:
            variables[options()["cluster.state_directory"].variable] = str(directory)
            arguments.append("--remove-state")
        listening = _listen(self._config.cluster, port)
        with listening or nullcontext():
            descriptors = [] if listening is None else [listening.fileno()]
            await self.start(
                COORDINATOR,
                "flinknet.cluster.coordinator",
                *arguments,
                *(f"--listening={descriptor}" for descriptor in descriptors),
                on_printed=on_news,
                variables=variables,
                descriptors=descriptors,
            )
            if listening is not None:
                # Workers may start from now on: the socket queues their connections.
                address = _address_of(listening, self._config.cluster)
                on_news(json.dumps({"event": "listening", "address": address}))

    def tell_coordinator(self, news: Mapping[str, Any]) -> None:
        """Write a line of JSON to the coordinator's standard input."""
        self.running[COORDINATOR].tell(news)

    async def stop(self) -> None:
        """Stop every child and wait for it; cancelling this leaves the children to ``kill``."""
        for report in self._reports:
            report.cancel()
        await asyncio.gather(*self._reports, return_exceptions=True)
        timeout_s = self._config.cluster.stop_timeout_ms / 1000
        try:
            await asyncio.gather(*(child.stop(timeout_s) for child in self.running.values()))
        finally:
            if self._jobs is not None:
                self._jobs.close()

    def kill(self) -> None:
        """Kill every child at once; a running ``stop`` returns then."""
        for child in self.running.values():
            child.kill()

    def _directory_of_jobs(self) -> Path | None:
        """Return the coordinator's directory of jobs; None if it is not the launcher's."""
        cluster = self._config.cluster
        if not cluster.coordinator_restarts or cluster.state_directory:
            return None
        if self._jobs is None:
            base = Path(temporary_directory())
            # An earlier launcher may have been killed before it removed its directory.
            remove_leftovers(_JOBS, base)
            self._jobs = LockedDirectory(_JOBS, base)
        return self._jobs.path

    async def start(
        self,
        name: str,
        module: str,
        *arguments: str,
        on_printed: Callable[[str], None],
        variables: Mapping[str, str] = MappingProxyType({}),
        descriptors: Sequence[int] = (),
    ) -> ChildProcess:
        """Start a process of the package ``module``. Raises JobError if it cannot be started."""
        start = json.dumps([HOME, name != COORDINATOR, *import_path()])
        flags = () if name == COORDINATOR else interpreter_flags()
        # The cluster's settings come from its configuration, not from this environment.
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(VARIABLE_PREFIX) or name == PURE_VARIABLE
        }
        own = process_variables(self._config, self._token)
        try:
            child = await ChildProcess.start(
                name,
                (
                    *(sys.executable, "-P", *flags),
                    *("-c", START, module, start, "--watch-parent", *arguments),
                ),
                environment={**inherited, **own, **variables},
                on_output=lambda line: self._on_output(name, line),
                on_printed=on_printed,
                is_kept=name != COORDINATOR,
                descriptors=descriptors,
            )
        except OSError as error:
            raise JobError(f"{name} cannot be started: {sys.executable}: {error}") from error
        self.running[name] = child
        report = asyncio.create_task(self._report(child))
        self._reports.add(report)
        report.add_done_callback(self._reports.discard)
        return child

    async def _report(self, child: ChildProcess) -> None:
        status = await child.wait()
        how = describe_exit(status)
        # The kernel uses SIGKILL, too, when memory runs out.
        if status == -signal.SIGKILL:
            how += self._memory_kills.hint()
        await child.drain()
        own_status = status if status >= 0 else None
        self._on_exit(Exit(child.name, how, own_status, f"pid {child.pid}", child.last_line))


def _listen(cluster: ClusterConfig, port: int | None) -> machine.Socket | None:
    """Return a listening socket for the coordinator; None if it cannot be made."""
    if is_any_address(cluster.host) and not cluster.advertised_host:
        return None
    try:
        return machine.listen(cluster.host, cluster.coordinator_port if port is None else port)
    except OSError:
        return None


def _address_of(listening: machine.Socket, cluster: ClusterConfig) -> str:
    bound: int = listening.getsockname()[1]
    return reached_at(cluster.advertised_host or cluster.host, bound)


def process_variables(config: FlinknetConfig, token: str) -> dict[str, str]:
    """Return the environment variables of each process of a cluster.

    They have the token, the seed and the configuration.
    """
    configured = {
        option.variable: option.render(attrgetter(name)(config))
        for name, option in options().items()
    }
    return {
        **configured,
        TOKEN_VARIABLE: token,
        SEED_VARIABLE: str(config.cluster.hash_seed),
        # A line must reach the launcher as soon as it is printed.
        "PYTHONUNBUFFERED": "1",
    }


def interpreter_flags() -> list[str]:
    """Return the interpreter options that change programs: -O, -OO, -b, -bb and -W."""
    repeated = ["-O"] * sys.flags.optimize + ["-b"] * sys.flags.bytes_warning
    return [*repeated, *(f"-W{option}" for option in sys.warnoptions)]


def import_path() -> list[str]:
    """Return the import path without entries that are not text, which Python ignores."""
    return [place for place in sys.path if isinstance(place, str)]
