"""One job, one local cluster, one call: what a program without an event loop uses."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from functools import partial

from flinknet.cluster.control.client import OnProgress
from flinknet.cluster.control.job_result import JobProgress, JobResult
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.local.job_control import JobControl
from flinknet.cluster.local.local_cluster import LocalCluster
from flinknet.cluster.local.preflight import fit_job
from flinknet.cluster.local.process_output import (
    LAUNCHER,
    OnOutput,
    OnPrinted,
    output_printer,
    print_printed,
)
from flinknet.config import FlinknetConfig
from flinknet.errors import ConfigurationError
from flinknet.task.graph import JobGraph

__all__ = ["run_job"]

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


def run_job(
    graph: JobGraph,
    config: FlinknetConfig | None = None,
    *,
    on_progress: OnProgress | None = None,
    on_output: OnOutput | None = None,
    on_printed: OnPrinted = print_printed,
    on_page: Callable[[str], None] | None = None,
    control: JobControl | None = None,
    from_checkpoint: str | None = None,
    allow_non_restored_state: bool = False,
) -> JobResult:
    """Run a job on a local cluster of its own and return its result; see ``LocalCluster.execute``.

    Raises ConfigurationError before anything is started if the job or the cluster cannot work, and
    else the JobError that the job ended with. A job that has to be degraded to fit the network
    memory runs so, and ``on_output`` gets a line about it; ``on_page`` hears where the cluster's
    web page is (``LocalCluster.page``), and ``control`` is for other threads. No process is left
    behind in any case: Ctrl-C raises KeyboardInterrupt, SIGTERM and SIGHUP (unless the program
    handles them) raise SystemExit, each after the cluster has stopped.
    """
    if _loop_is_running():
        raise ConfigurationError(
            "execute() waits for the job, so it cannot be called from a running event loop, as in "
            "a notebook: write `await env.execute_async(...)` there, and `await` the result of it"
        )
    config, notice = fit_job(graph, config or FlinknetConfig())
    if on_output is None:
        on_output = output_printer(config.cluster)
    if notice is not None:
        on_output(LAUNCHER, notice)
    submission = Submission.of_graph(graph)
    received: list[signal.Signals] = []
    control = control or JobControl()

    def report(progress: JobProgress) -> None:
        control.progress = progress
        if on_progress is not None:
            on_progress(progress)

    async def execute() -> JobResult:
        this_task = asyncio.current_task()
        assert this_task is not None

        def stop(number: signal.Signals) -> None:
            received.append(number)
            this_task.cancel()

        loop = asyncio.get_running_loop()
        for number in _free_stop_signals():
            loop.add_signal_handler(number, stop, number)
        control.start(partial(loop.call_soon_threadsafe, this_task.cancel))
        async with LocalCluster(config, on_output=on_output, on_printed=on_printed) as cluster:
            if on_page is not None:
                on_page(cluster.page)
            control.attach(cluster)
            return await cluster.execute(
                submission,
                report,
                job_id=control.job_id,
                from_checkpoint=from_checkpoint,
                allow_non_restored_state=allow_non_restored_state,
            )

    try:
        return asyncio.run(execute())
    except asyncio.CancelledError:
        if not received:
            raise
        raise SystemExit(128 + received[0]) from None
    finally:
        control.end()


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _free_stop_signals() -> list[signal.Signals]:
    """The signals that may be taken: only the main thread can, and the program's own come first."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in _STOP_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
