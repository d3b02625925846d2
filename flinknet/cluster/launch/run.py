"""One job on its own cluster with one call, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Callable

from flinknet.checkpoint.reader import CheckpointReader
from flinknet.cluster.control.client import OnProgress
from flinknet.cluster.control.job_result import JobProgress, JobResult
from flinknet.cluster.control.submission import Submission
from flinknet.cluster.launch.cluster import Cluster
from flinknet.cluster.launch.interruption import (
    Interruption,
    check_no_loop_runs,
    run_interruptible,
)
from flinknet.cluster.launch.job_control import JobControl
from flinknet.cluster.launch.job_fit import fit_job
from flinknet.cluster.launch.process_output import (
    LAUNCHER,
    OnOutput,
    OnPrinted,
    output_printer,
    print_printed,
)
from flinknet.cluster.launch.registry import launcher_of
from flinknet.config import FlinknetConfig
from flinknet.config.loading import with_flink_options
from flinknet.graph.graph import JobGraph

__all__ = ["run_job"]


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
    """Run a job on a cluster of its own and return its result; see ``Cluster.execute``.

    ``cluster.launcher`` names the launcher that starts the cluster's processes, unless the program
    has named a Spark session for this.

    Options of the cluster that the program sets (``JobGraph.cluster_options``) replace those of
    ``config``.

    Raises ConfigurationError before anything is started if the job or the cluster cannot work, or
    else the JobError that the job ended with. A job that has to be degraded to fit the network
    memory runs so, and ``on_output`` gets a line about it. ``on_page`` gets the address of the
    cluster's web page (``Cluster.page``), and ``control`` is for other threads.

    No process is left behind in any case: Ctrl-C raises KeyboardInterrupt, SIGTERM and SIGHUP
    (unless the program handles them) raise SystemExit, each after the cluster has stopped. A
    BrokenPipeError of ``on_printed``, which means that the reader of standard output has left,
    cancels the job and is raised.
    """
    check_no_loop_runs()
    config = with_flink_options(config or FlinknetConfig(), dict(graph.cluster_options))
    make_launcher = launcher_of(config.cluster)
    config, notice = fit_job(graph, config)
    if on_output is None:
        on_output = output_printer(config.cluster)
    if notice is not None:
        on_output(LAUNCHER, notice)
    submission = Submission.of_graph(graph)
    control = control or JobControl()

    def report(progress: JobProgress) -> None:
        control.progress = progress
        if on_progress is not None:
            on_progress(progress)

    async def execute(interruption: Interruption) -> JobResult:
        if from_checkpoint is not None:
            # The coordinator checks the path as well; checking it here avoids the start of a
            # cluster.
            await CheckpointReader.open(from_checkpoint, config.checkpointing)
        show_printed = interruption.begin_at_broken_pipe(on_printed)
        async with Cluster(
            config, make_launcher, on_output=on_output, on_printed=show_printed
        ) as cluster:
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

    return run_interruptible(execute, control)
