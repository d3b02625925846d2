"""The limits and defaults of clusters whose workers are tasks of Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flinknet.config.checks import check_fields, require_at_least, require_port, require_positive

__all__ = ["SparkConfig"]


@dataclass(frozen=True, slots=True)
class SparkConfig:
    """What the launcher "spark" needs beside the cluster's options."""

    master: str = ""
    """Master of the session that is made for clusters where the program has none: local[4],
    local-cluster[2,1,1024], spark://HOST:7077, yarn, k8s://..., or sc://HOST of Spark Connect.
    Empty: as Spark's own configuration says. Spark: spark.master."""

    ship: Literal["auto", "always", "never"] = "auto"
    """Whether executors get the program's own flinknet, compiled modules included, and the
    libraries that it needs: some 20 MB, once for each session. With "auto" where they have none, or
    one that does not fit."""

    tasks_port: int = 0
    """Port of the program to which tasks connect; 0 takes a free one. For networks that let few
    ports through, with cluster.coordinator_port, cluster.data_port and cluster.metrics_port."""

    slots_timeout_ms: float = 10_000.0
    """How long to wait for executors that have so many slots as there are workers, before the
    cluster is refused: those of a new session register a little later than it is there."""

    tasks_timeout_ms: float = 25_000.0
    """Time for Spark to start the tasks of a stage when it has slots for them: executors start
    Python first, and other jobs may have the slots. It is less than cluster.start_timeout_ms, so
    that the error says what was waited for. A stage that takes the place of a lost one has
    cluster.restart_slots_timeout_ms."""

    slots_look_ms: float = 200.0
    """Pause between two looks whether there are enough slots."""

    def __post_init__(self) -> None:
        check_fields(self)
        require_port(self.tasks_port, "tasks_port")
        require_positive(self, "tasks_timeout_ms", "slots_look_ms")
        require_at_least(self, 0, "slots_timeout_ms")
