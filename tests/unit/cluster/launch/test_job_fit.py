"""A job that does not fit is refused before any start, with numbers and the option to change."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinknet.cluster.launch.job_fit import check_job, fit_job
from flinknet.config import ClusterConfig, FlinknetConfig
from flinknet.config.job_checkpointing import JobCheckpointingConfig
from flinknet.datastream import StreamExecutionEnvironment, TextFileSink
from flinknet.errors import (
    ConfigurationError,
    InsufficientNetworkBuffersError,
    InsufficientSlotsError,
)
from flinknet.graph.graph import JobGraph
from tests.unit.cluster.graphs import keyed_graph


def config(**cluster: object) -> FlinknetConfig:
    return FlinknetConfig(cluster=ClusterConfig(**cluster))  # type: ignore[arg-type]


def test_an_error_about_slots_names_the_settings_that_suffice() -> None:
    graph = keyed_graph(parallelism=7)
    with pytest.raises(
        InsufficientSlotsError,
        match=r"needs 7 slots, but the cluster has 4 \(2 workers with 2 slots each\): "
        r".*--workers 4 .*--slots 4 ",
    ):
        check_job(graph, FlinknetConfig())
    check_job(graph, config(workers=4))
    check_job(graph, config(slots_per_worker=4))


def network_of(buffers: int, config: FlinknetConfig) -> FlinknetConfig:
    memory = buffers * config.network.segment_bytes
    return replace(config, network=replace(config.network, network_memory_bytes=memory))


SINKS = keyed_graph(parallelism=4)
"""The source on worker-0 needs 4 + 1 buffers, each of two sinks on worker-1 one channel's 2 + 1."""


def test_a_job_that_fits_runs_as_it_is() -> None:
    config = network_of(6, FlinknetConfig())

    assert fit_job(SINKS, config) == (config, None)
    check_job(SINKS, config)


def test_with_the_minimum_a_job_is_degraded_as_little_as_possible() -> None:
    config = network_of(5, FlinknetConfig())

    fitted, notice = fit_job(SINKS, config)

    assert fitted.network == replace(config.network, required_buffers_per_gate_max=2)
    assert fitted.cluster == config.cluster
    assert notice == (
        'job "sums" runs degraded: worker-1 needs 6 network buffers of 33024 bytes, but '
        "network.network_memory_bytes = 165120 holds 5, so an input gate reserves at most 2 "
        "(network.required_buffers_per_gate_max) and its channels share what else is free; raise "
        "network.network_memory_bytes to 198144 to avoid this"
    )
    assert fit_job(SINKS, fitted) == (fitted, None)


def test_a_running_cluster_does_not_degrade() -> None:
    """Its workers have their configuration already."""
    with pytest.raises(
        InsufficientNetworkBuffersError,
        match=r"worker-1 needs 6 .*with at least 198144, or .*required_buffers_per_gate_max = 2, ",
    ):
        check_job(SINKS, network_of(5, FlinknetConfig()))


@pytest.mark.parametrize("check", [check_job, fit_job])
def test_below_the_minimum_a_job_is_refused(check: Callable[..., object]) -> None:
    with pytest.raises(
        InsufficientNetworkBuffersError,
        match=r'"sums" cannot run, not even degraded: worker-0 needs 5 network buffers of 33024 '
        r"bytes, but network.network_memory_bytes = 132096 holds 4: raise it to 198144 \(at least "
        r"to 165120\), or lower network.segment_bytes or the job's parallelism",
    ):
        check(SINKS, network_of(4, FlinknetConfig()))


def test_a_directory_that_takes_no_checkpoints_is_named_before_anything_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error would go unnoticed later, as failed checkpoints do not fail their job."""
    file = tmp_path / "file"
    file.write_text("")

    def job(place: str) -> JobGraph:
        return replace(keyed_graph(), checkpointing=JobCheckpointingConfig(100.0, directory=place))

    for place in (tmp_path, tmp_path / "to" / "be" / "made", "s3://bucket/is/not/asked"):
        check_job(job(str(place)), FlinknetConfig())
    with pytest.raises(ConfigurationError, match=f"{file} is not a directory; choose another"):
        check_job(job(str(file / "checkpoints")), FlinknetConfig())
    hidden, stat = tmp_path / "hidden" / "checkpoints", os.stat

    def stat_of_a_user(path: Any, **how: Any) -> os.stat_result:
        if path == hidden:
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **how)

    # root may look, and write, anywhere
    monkeypatch.setattr(os, "stat", stat_of_a_user)
    hidden.parent.mkdir()
    check_job(job(str(hidden)), FlinknetConfig())
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ConfigurationError, match="is not writable for this user"):
        check_job(job(str(tmp_path / "checkpoints")), FlinknetConfig())


def test_checkpoints_that_no_other_process_can_read_are_refused_before_the_start() -> None:
    graph = replace(
        keyed_graph(), checkpointing=JobCheckpointingConfig(100.0, directory="memory:///jobs")
    )
    with pytest.raises(ConfigurationError, match="each process's own memory"):
        check_job(graph, FlinknetConfig())


def test_output_that_is_lost_with_its_worker_is_refused_before_the_start() -> None:
    environment = StreamExecutionEnvironment()
    environment.from_collection([1]).map(str).sink_to(TextFileSink("memory://out")).name("lines")
    with pytest.raises(ConfigurationError, match=r'sink ".*lines" writes to memory://out.*lost'):
        check_job(environment.job_graph("job"), FlinknetConfig())
