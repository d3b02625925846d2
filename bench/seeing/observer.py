"""An observer that reads from a cluster at a fixed pace while a job runs, as Prometheus does."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Event, Thread
from typing import TypeAlias
from urllib.error import URLError
from urllib.request import Request, urlopen

from flinknet.cluster.control.credentials import TOKEN_VARIABLE, authorization_headers, new_token
from flinknet.config import FlinknetConfig

__all__ = ["Look", "Observer", "observing", "open_page", "scrape"]

TIMEOUT_S = 5.0

Ask: TypeAlias = Callable[[str], bytes]
"""Reads ``ADDRESS/PATH``."""

Look: TypeAlias = Callable[[str, Ask], None]
"""One observation: asks a coordinator by its address, and the processes that it names."""


def scrape(coordinator: str, ask: Ask) -> None:
    """Read /metrics of every process, as Prometheus does."""
    for target in json.loads(ask(f"{coordinator}/metrics/targets")):
        for address in target["targets"]:
            ask(f"{address}/metrics")


def open_page(coordinator: str, ask: Ask) -> None:
    """Read the network tab of the page for each running job.

    That tab is the most expensive one, because the workers are asked for their channels.
    """
    for job in json.loads(ask(f"{coordinator}/api/v1/page"))["jobs"]:
        if job["state"] == "RUNNING":
            ask(f"{coordinator}/api/v1/page?job={job['jid']}&show=network")


class Observer:
    """Observes the process at an address repeatedly, and counts the answers."""

    def __init__(self, address: str, token: str, look: Look, interval_s: float) -> None:
        self._address = address
        self._headers = authorization_headers(token)
        self._look = look
        self._interval_s = interval_s
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="observer", daemon=True)
        self.answers = 0
        self.bytes = 0

    def start(self) -> None:
        """Start observing."""
        self._thread.start()

    def stop(self) -> None:
        """Stop observing."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            # Each job has its own cluster, so at times there is none.
            with suppress(URLError, ConnectionError, TimeoutError):
                self._look(self._address, self._ask)

    def _ask(self, path: str) -> bytes:
        request = Request(f"http://{path}", headers=self._headers)
        with urlopen(request, timeout=TIMEOUT_S) as answer:
            content: bytes = answer.read()
        self.answers += 1
        self.bytes += len(content)
        return content


@contextmanager
def observing(
    look: Look, interval_s: float, config: FlinknetConfig | None = None
) -> Iterator[tuple[Observer, FlinknetConfig]]:
    """Observe the local clusters that start in this block with the yielded configuration.

    The clusters run one after the other. They get their token from this process's environment.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    token = new_token()
    os.environ[TOKEN_VARIABLE] = token
    config = config or FlinknetConfig()
    config = replace(config, cluster=replace(config.cluster, coordinator_port=port))
    observer = Observer(f"{config.cluster.host}:{port}", token, look, interval_s)
    observer.start()
    try:
        yield observer, config
    finally:
        observer.stop()
        del os.environ[TOKEN_VARIABLE]
