"""The settings of the coordinator and of a job, in Flink's formats."""

from __future__ import annotations

import platform

from flinknet.cluster.coordinator.rest.flink.environment_view import (
    coordinator_configuration,
    coordinator_environment,
    job_configuration,
)
from flinknet.config import ClusterConfig, TlsConfig
from tests.unit.cluster.coordinator.rest.flink.jobs import submitted


def test_every_option_of_the_cluster_is_told() -> None:
    """Options are named by their path.

    The contents of the files that they name are shown nowhere.
    """
    tls = TlsConfig(certificate="a.pem", private_key="a.key", authority="ca.pem")
    told = coordinator_configuration(ClusterConfig(workers=7, token_file="secret", tls=tls))
    assert {"key": "cluster.workers", "value": "7"} in told
    assert {"key": "cluster.token_file", "value": "secret"} in told
    assert {"key": "cluster.tls.private_key", "value": "a.key"} in told


def test_the_interpreter_stands_for_the_jvm() -> None:
    told = coordinator_environment()
    assert platform.python_version() in told["jvm"]["version"]
    assert told["classpath"] == []


def test_a_job_tells_its_parallelism_and_its_restart_strategy() -> None:
    _, record = submitted()
    told = job_configuration(record)
    assert (told["jid"], told["name"]) == (record.job_id, "sums")
    assert told["execution-config"]["job-parallelism"] == 2
    assert told["execution-config"]["restart-strategy"] == "NoRestart()"
