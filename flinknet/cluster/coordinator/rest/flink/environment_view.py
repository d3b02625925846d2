"""Configuration of the coordinator and of jobs, in the formats of Flink's REST API."""

from __future__ import annotations

import platform
from operator import attrgetter
from typing import Any

from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.compiled_modules import INTERPRETER
from flinknet.config import ClusterConfig
from flinknet.config.loading import options

__all__ = ["coordinator_configuration", "coordinator_environment", "job_configuration"]

_SECTION = "cluster."


def coordinator_configuration(config: ClusterConfig) -> list[dict[str, str]]:
    """Return Flink's ConfigurationInfo: each option of the cluster and its value."""
    return [
        {"key": name, "value": str(attrgetter(name.removeprefix(_SECTION))(config))}
        for name in options()
        if name.startswith(_SECTION)
    ]


def coordinator_environment() -> dict[str, Any]:
    """Return Flink's EnvironmentInfo, with the Python interpreter in place of the JVM."""
    return {
        "jvm": {"version": INTERPRETER, "arch": platform.machine(), "options": []},
        "classpath": [],
    }


def job_configuration(record: JobRecord) -> dict[str, Any]:
    """Return Flink's JobConfigInfo.

    Object reuse is on, because chained operators pass the same objects on.
    """
    shape = record.submission.shape
    return {
        "jid": record.job_id,
        "name": shape.name,
        "execution-config": {
            "execution-mode": "PIPELINED",
            "restart-strategy": str(shape.restart),
            "job-parallelism": max(vertex.parallelism for vertex in shape.vertices),
            "object-reuse-mode": True,
            "user-config": {},
        },
    }
