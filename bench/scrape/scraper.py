"""A stand-in for Prometheus: reads every /metrics of a cluster in a thread, at a fixed pace."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from urllib.error import URLError
from urllib.request import Request, urlopen

from flinknet.cluster.control.credentials import TOKEN_VARIABLE, authorization_headers, new_token
from flinknet.config import ClusterConfig, FlinknetConfig

__all__ = ["Scraper", "scraping"]

TIMEOUT_S = 5.0


class Scraper:
    """Scrapes whatever cluster has this configuration, and counts."""

    def __init__(self, config: FlinknetConfig, token: str, interval_s: float) -> None:
        self.config = config
        self._address = f"{config.cluster.host}:{config.cluster.coordinator_port}"
        self._headers = authorization_headers(token)
        self._interval_s = interval_s
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="scraper", daemon=True)
        self.scrapes = 0
        """Answers of processes, so far."""
        self.bytes = 0

    def start(self) -> None:
        """Scrape from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Scrape no more."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            # There is a cluster for each job, so that at times there is none.
            with suppress(URLError, ConnectionError, TimeoutError):
                self._scrape()

    def _scrape(self) -> None:
        for target in json.loads(self._read(self._address, "/metrics/targets")):
            for address in target["targets"]:
                self.bytes += len(self._read(address, "/metrics"))
                self.scrapes += 1

    def _read(self, address: str, path: str) -> bytes:
        request = Request(f"http://{address}{path}", headers=self._headers)
        with urlopen(request, timeout=TIMEOUT_S) as answer:
            content: bytes = answer.read()
        return content


@contextmanager
def scraping(interval_s: float) -> Iterator[Scraper]:
    """Scrape the local clusters that are started in this block with the scraper's configuration,
    one after the other. They get their token from this process's environment."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    token = new_token()
    os.environ[TOKEN_VARIABLE] = token
    config = FlinknetConfig(cluster=ClusterConfig(coordinator_port=port))
    scraper = Scraper(config, token, interval_s)
    scraper.start()
    try:
        yield scraper
    finally:
        scraper.stop()
        del os.environ[TOKEN_VARIABLE]
