"""Lanes for tests: processes that run seeds side by side (``lane.py``)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

__all__ = ["Lanes", "lanes"]

ROOT = Path(__file__).parents[3]


class Lanes:
    """Several processes, each of which runs one seed at a time."""

    def __init__(self, number: int) -> None:
        self._free: SimpleQueue[subprocess.Popen[str]] = SimpleQueue()
        self._processes = [self._started() for _ in range(number)]
        for process in self._processes:
            self._free.put(process)

    def run(self, seeds: Iterable[int], done: Callable[[int], Any]) -> list[str]:
        """Run seeds and return the texts of their failures; call ``done`` after each seed."""
        failures: list[str] = []
        lock = threading.Lock()

        def run(seed: int) -> None:
            answer = self._answer({"seed": seed, "shrink": True})
            with lock:
                if answer["failure"]:
                    failures.append(answer["failure"])
                done(seed)

        with ThreadPoolExecutor(len(self._processes)) as pool:
            for one in [pool.submit(run, seed) for seed in seeds]:
                one.result()
        return failures

    def close(self) -> None:
        """End the processes and wait for them."""
        for process in self._processes:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.wait()
            process.stdout.close()

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._free.get()
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, f"the lane ended with status {process.wait()} while it ran {request}"
            answer: dict[str, Any] = json.loads(line)
            return answer
        finally:
            self._free.put(process)

    @staticmethod
    def _started() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.jobs.lane"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


@contextmanager
def lanes(number: int) -> Iterator[Lanes]:
    """Start lanes, and end them on exit."""
    started = Lanes(number)
    try:
        yield started
    finally:
        started.close()
