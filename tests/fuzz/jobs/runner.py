"""Runs a program on a local cluster, perhaps with a savepoint between, and compares outputs."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import traceback
import uuid
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any

from flinknet.cluster import JobProgress, LocalCluster
from flinknet.cluster.control.job_result import JobResult
from flinknet.cluster.launch.job_control import JobControl
from flinknet.datastream.executor import set_executor
from flinknet.graph.graph import JobGraph
from tests.fuzz.jobs.builder import Places, build, sink_name
from tests.fuzz.jobs.comparison import difference
from tests.fuzz.jobs.interpreter import SINKS, interpret
from tests.fuzz.jobs.program import Program, Step
from tests.fuzz.jobs.values import text_of_record

__all__ = ["PATIENCE_S", "failure_of"]

PATIENCE_S = 30.0
"""Seconds after which a hanging job counts as failed, so that others can run.

Most jobs take a tenth of a second, and jobs with a replaced worker take two seconds.
"""


async def failure_of(program: Program, cluster: LocalCluster) -> str:
    """Run a program; return its failure or the difference of its outputs, or ""."""
    directory = Path(tempfile.mkdtemp(prefix="flinknet-fuzz-"))
    run = _Run(program, cluster, Places(directory))
    try:
        async with asyncio.timeout(PATIENCE_S):
            given = await run.outputs()
    except TimeoutError:
        return f"HANGS: it has not ended within {PATIENCE_S:.0f} s; {run.state()}"
    except Exception as error:
        cause = traceback.format_exception(error)
        return f"FAILS: {type(error).__name__}: {error}\n{''.join(cause)}"
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    expected = interpret(program)
    sinks = [step for step in program.steps if step.kind in SINKS]
    wrong = [difference(step, expected[step.number], given[step.number], program) for step in sinks]
    wrong += [f"late records in {name}" for name in given["late"]]
    return "\n".join(filter(None, wrong))


class _Run:
    def __init__(self, program: Program, cluster: LocalCluster, places: Places) -> None:
        self._program, self._cluster, self._places = program, cluster, places
        self._random = Random(f"run {program.seed}")
        self._collected: list[Any] = []
        self._progress: JobProgress | None = None
        self._running = asyncio.Event()

    def state(self) -> str:
        """Describe the last known state of the job."""
        load = f"the load of the machine is {os.getloadavg()[0]:.1f}"
        if (progress := self._progress) is None:
            return f"nothing was heard of its job; {load}"
        vertices = ", ".join(
            f"{vertex.name} {vertex.states}, records {vertex.records_in} and {vertex.records_out}"
            for vertex in progress.vertices
        )
        return (
            f"its job was {progress.state} in attempt {progress.attempt} after "
            f"{progress.seconds:.1f} s ({vertices}); {load}"
        )

    def _look(self, progress: JobProgress) -> None:
        self._progress = progress
        if progress.state == "RUNNING":
            self._running.set()

    async def outputs(self) -> dict[Any, list[str]]:
        """Run the program to its end, and return the texts of each sink's records."""
        if self._program.stop:
            result = await self._stopped_and_continued()
        else:
            result = await self._executed()
        given: dict[Any, list[str]] = {
            step.number: self._given(step, result)
            for step in self._program.steps
            if step.kind in SINKS
        }
        given["late"] = [
            name for name, records in result.collected.items() if "late" in name and records
        ]
        return given

    async def _executed(self) -> JobResult:
        # A shrunk program may have lost its stop, but its sources still wait for this file.
        self._places.go_on.touch()
        environment, stream = build(self._program, self._places)
        if stream is None:
            return await self._cluster.execute(environment.job_graph("fuzz"), self._look)
        loop, results = asyncio.get_running_loop(), list[JobResult]()

        def execute(graph: JobGraph, control: JobControl | None) -> JobResult:
            running: Future[JobResult] = asyncio.run_coroutine_threadsafe(
                self._cluster.execute(graph, self._look), loop
            )
            assert control is not None, "the records are collected of a job that goes on"
            control.start(running.cancel)
            results.append(running.result())
            control.end()
            return results[-1]

        set_executor(execute)
        try:
            records = stream.execute_and_collect("fuzz")
            self._collected = await asyncio.to_thread(list, records)
        finally:
            await asyncio.to_thread(set_executor, None)
        return results[0]

    async def _stopped_and_continued(self) -> JobResult:
        environment, _ = build(self._program, self._places)
        job_id = uuid.uuid4().hex
        graph = environment.job_graph("fuzz")
        stopping = asyncio.create_task(self._cluster.execute(graph, self._look, job_id=job_id))
        waiting = asyncio.create_task(self._running.wait())
        await asyncio.wait((stopping, waiting), return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        # Stop at a random moment after all subtasks run.
        await asyncio.sleep(self._random.random() / 50)
        if stopping.done():
            await stopping
        place = await self._cluster.stop(job_id, self._places.checkpoints)
        await stopping
        self._places.go_on.touch()
        program = self._program.rescaled() if self._program.rescale else self._program
        environment, _ = build(program, self._places)
        return await self._cluster.execute(
            environment.job_graph("fuzz"), self._look, from_checkpoint=place
        )

    def _given(self, step: Step, result: JobResult) -> list[str]:
        match step.kind:
            case "collect":
                return list(map(text_of_record, result.collected.get(sink_name(step), [])))
            case "iterator":
                return list(map(text_of_record, self._collected))
            case "function":
                path = self._places.output(step)
                return path.read_text("ascii").splitlines() if path.exists() else []
            case _:
                lines = self._lines(self._places.output(step))
                if step.kind == "json files":
                    return [json.loads(line)["record"] for line in lines]
                return lines

    @staticmethod
    def _lines(directory: Path) -> list[str]:
        """Return the lines of the committed files."""
        return [
            line
            for path in sorted(directory.rglob("*"))
            if path.is_file() and not _is_hidden(path.relative_to(directory))
            for line in path.read_text("ascii").splitlines()
        ]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)
