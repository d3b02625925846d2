"""Limits and defaults of clusters with workers in Spark tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flinknet.config.checks import check_fields, require_at_least, require_port, require_positive

__all__ = ["SparkConfig"]


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """Settings of the launcher "spark", in addition to the cluster's options."""

    master: str = ""
    """Master of the session that is created for a program without one.

    It is local[4], local-cluster[2,1,1024], spark://HOST:7077, yarn, k8s://..., or sc://HOST of
    Spark Connect. Empty means Spark's own configuration. Spark: spark.master.
    """

    ship: Literal["auto", "always", "never"] = "auto"
    """Whether executors receive the program's own flinknet and the libraries that it needs.

    This includes compiled modules, and takes about 20 MB once per session. With "auto", executors
    receive it if they have no flinknet or an incompatible one.
    """

    tasks_port: int = 0
    """Port of the program for connections from tasks; 0 for any free port.

    Set it for networks that allow few ports, with cluster.coordinator_port, cluster.data_port and
    cluster.metrics_port.
    """

    slots_timeout_ms: float = 10_000.0
    """Time to wait for executors with enough slots for the workers, before the cluster is rejected.

    Executors of a new session register shortly after the session exists.
    """

    tasks_timeout_ms: float = 25_000.0
    """Time for Spark to start the tasks of a stage when it has slots for them.

    Executors start Python first, and other jobs may occupy the slots. The time is less than
    cluster.start_timeout_ms, so that the error names the cause. A stage that replaces a lost one
    has cluster.restart_slots_timeout_ms.
    """

    slots_look_ms: float = 200.0
    """Interval between two checks for enough slots."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_port(self.tasks_port, "tasks_port")
        require_positive(self, "tasks_timeout_ms", "slots_look_ms")
        require_at_least(self, 0, "slots_timeout_ms")
