"""The events between a coordinator and the launcher that started it, as lines of JSON.

The coordinator writes events to standard output: ``listening`` with the address, ``ready`` once the
expected workers have registered, and ``worker_wanted`` for each lost worker. It reads events of the
launcher from standard input: ``worker_started`` and ``worker_exited``.
"""

from __future__ import annotations

import asyncio
import json
import shutil

from flinknet.cluster.control.process_group import kill_group
from flinknet.cluster.coordinator.coordinator import Coordinator

__all__ = ["LauncherEvents", "announce"]


def announce(event: str, **fields: object) -> None:
    """Write an event for the launcher."""
    print(json.dumps({"event": event, **fields}), flush=True)


class LauncherEvents:
    """The handler for events of the launcher, and for its end.

    All methods run in the thread that reads from the launcher.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        loop: asyncio.AbstractEventLoop,
        state_directory: str | None = None,
    ) -> None:
        """``state_directory`` is removed when the launcher ends."""
        self._state_directory = state_directory
        self._coordinator = coordinator
        self._loop = loop
        self._groups: dict[str, int] = {}

    def hear(self, line: bytes) -> None:
        """Handle one event: a line of JSON."""
        news = json.loads(line)
        worker_id = news["worker_id"]
        match news["event"]:
            case "worker_started":
                self._groups[worker_id] = news["pid"]
            case "worker_exited":
                self._groups.pop(worker_id, None)
                self._loop.call_soon_threadsafe(
                    self._coordinator.worker_exited, worker_id, news["how"]
                )
            case event:
                raise AssertionError(f"unknown event of the launcher: {event}")

    def ended(self) -> None:
        """Clean up after the launcher has ended.

        The kernel has killed the workers by then. Processes that their user code started are still
        there, in the workers' process groups.
        """
        for leader in self._groups.values():
            kill_group(leader)
        if self._state_directory is not None:
            shutil.rmtree(self._state_directory, ignore_errors=True)
