"""A process that runs seeds one after the other, on clusters that it keeps.

Each request is a line of JSON, ``{"seed": 7, "shrink": true}``. The answer is a line with the seed
and its failure, which is empty if the outputs are right. The clusters are child processes, and end
with the lane, at the end of its input. A lane isolates the test's process from a cluster that
replaces a worker or hangs.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack, suppress
from typing import Any

from flinknet.cluster import LocalCluster
from tests.fuzz.jobs.clusters import cluster_of
from tests.fuzz.jobs.generator import generate
from tests.fuzz.jobs.program import Program
from tests.fuzz.jobs.runner import failure_of
from tests.fuzz.jobs.shrinker import shrunk

__all__ = ["Lane"]

SHRINK_S = 60.0
HEARD_LINES = 12


class Lane:
    """A lane: it runs programs, each on a cluster of its kind."""

    def __init__(self) -> None:
        self._clusters: dict[str, tuple[AsyncExitStack, LocalCluster]] = {}
        self._heard: list[str] = []

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run the program of a seed, and shrink it if it fails."""
        program = generate(request["seed"])
        failure = await self._failure_of(program)
        if not failure:
            return {"seed": program.seed, "failure": ""}
        text = f"{program}\n{failure}"
        if request["shrink"]:
            smaller, still = await shrunk(program, failure, self._failure_of, SHRINK_S)
            text = f"{smaller}\n{still}\nwhich was made smaller from\n{text}"
        return {"seed": program.seed, "failure": text}

    async def close(self) -> None:
        """Stop all clusters."""
        for kind in list(self._clusters):
            await self._forget(kind)

    async def _failure_of(self, program: Program) -> str:
        """Run a program, and discard its cluster if the program fails."""
        kind = program.cluster
        self._heard.clear()
        if kind not in self._clusters:
            stack = AsyncExitStack()
            cluster = await stack.enter_async_context(cluster_of(kind, self._heard))
            self._clusters[kind] = stack, cluster
        failure = await failure_of(program, self._clusters[kind][1])
        if failure:
            await self._forget(kind)
            said = [line for line in self._heard if " INFO " not in line][-HEARD_LINES:]
            failure = "\n".join([failure, *(f"  {line:.300}" for line in said)])
        return failure

    async def _forget(self, kind: str) -> None:
        stack, _ = self._clusters.pop(kind)
        with suppress(TimeoutError):
            async with asyncio.timeout(30):
                await stack.aclose()


async def _serve() -> None:
    lane = Lane()
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            answer = await lane.answer(json.loads(line))
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    finally:
        await lane.close()


if __name__ == "__main__":
    asyncio.run(_serve())
