"""``flinknet explain``: the memory that a job needs, and the maximum that its workers can hold."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from flinknet.cli.arguments import (
    AsJson,
    ConfigFile,
    EventLoop,
    JobArguments,
    JobFile,
    Slots,
    Workers,
    cluster_config,
    output_redirected,
)
from flinknet.cli.console import table_console
from flinknet.cli.explanation_table import explanation, summary
from flinknet.cli.job_file import first_job
from flinknet.cluster.launch.job_fit import explain_job
from flinknet.config.loading import with_flink_options

__all__ = ["explain"]


def explain(
    job: JobFile,
    arguments: JobArguments = None,
    *,
    workers: Workers = None,
    slots: Slots = None,
    event_loop: EventLoop = None,
    config: ConfigFile = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show the buffers of each subtask, in Flink's terms.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show whether a job fits the workers, and the memory that its exchange takes at most.

    The file runs up to its first execute(); no process is started. Exit status: 0 explained, 1 the
    job file failed, 2 refused, no job, or too few slots.
    """
    loaded = cluster_config(config, workers, slots, event_loop)
    with output_redirected(as_json):
        graph = first_job(job, arguments or [])
    config_of_job = with_flink_options(loaded, dict(graph.cluster_options))
    memory = explain_job(graph, config_of_job)
    if as_json:
        print(json.dumps(memory.to_dict(), indent=2))
    else:
        table_console().print(explanation(memory) if verbose else summary(memory))
