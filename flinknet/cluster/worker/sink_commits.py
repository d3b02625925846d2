"""The second phase of a job's two-phase sinks: one worker commits for all subtasks, or aborts.

The coordinator sends the committables of the subtasks, which are opaque bytes to it. The sinks come
from the job's graph, so their user code runs only on workers. Committers run in a thread, so that
heartbeats go on. The coordinator is told the outcome in every case.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

from flinknet import machine
from flinknet.cluster.control.control_link import ControlLink
from flinknet.cluster.control.failure import FailureCause
from flinknet.cluster.control.job_files import FilesInUse, unpack_job
from flinknet.cluster.control.messages import Settle, Settled
from flinknet.cluster.control.subtask_result import merge_by_sink
from flinknet.config import ClusterConfig
from flinknet.errors import FlinknetError, JobFailedError
from flinknet.graph.graph import JobGraph
from flinknet.operators.sink import CommitContext, TwoPhaseSink
from flinknet.texts import text_of

__all__ = ["settle_sinks"]


async def settle_sinks(
    request: Settle,
    link: ControlLink,
    worker_id: str,
    config: ClusterConfig,
    files_in_use: FilesInUse,
) -> None:
    """Commit or abort the sinks of an attempt one after the other, and report the outcome."""
    cause = {}
    try:
        await _settle(request, link, files_in_use)
    except Exception as error:
        if not request.commit:
            # The job has failed for another reason already. This error is only printed.
            print(
                f"the output of a job was not removed: {text_of(error)}",
                file=sys.stderr,
            )
        cause = FailureCause.of_exception(
            error,
            worker_id=worker_id,
            pid=machine.process_id(),
            subtask=None,
            text_bytes_max=config.failure_text_bytes_max,
        ).to_dict()
    await link.send(Settled(request.job_id, request.attempt, cause))


async def _settle(request: Settle, link: ControlLink, files_in_use: FilesInUse) -> None:
    job, committables = await link.fetch_committables(request.job_id, request.attempt)
    prepared = merge_by_sink(committables)
    files, graph_bytes = unpack_job(job)
    async with files_in_use.used_in_task(files):
        await _settle_graph(request, graph_bytes, prepared)


async def _settle_graph(
    request: Settle, graph_bytes: bytes, prepared: Mapping[str, list[Any]]
) -> None:
    graph = JobGraph.from_bytes(graph_bytes)
    checkpointed = graph.checkpointing is not None
    for operator, sink in graph.two_phase_sinks():
        context = CommitContext(operator.name, request.job_id, request.attempt, checkpointed)
        what = "commit" if request.commit else "abort"
        try:
            # Committers run in a thread, so that heartbeats go on.
            if request.commit:
                await asyncio.to_thread(_commit, sink, context, prepared.get(operator.uid, []))
            else:
                await asyncio.to_thread(_abort, sink, context)
        except FlinknetError as error:
            raise JobFailedError(f'sink "{operator.name}" failed in {what}(): {error}') from error
        except Exception as error:
            raise JobFailedError(
                f'sink "{operator.name}" failed in {what}(): {type(error).__name__}: '
                f"{text_of(error)}"
            ) from error


def _commit(sink: TwoPhaseSink, context: CommitContext, prepared: list[object]) -> None:
    sink.create_committer(context).commit(prepared)


def _abort(sink: TwoPhaseSink, context: CommitContext) -> None:
    sink.create_committer(context).abort()
