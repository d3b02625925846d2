"""A cluster on this machine, for programs that manage its processes themselves."""

from __future__ import annotations

from flinknet.cluster.launch.cluster import Cluster
from flinknet.cluster.launch.local.launcher import LocalLauncher
from flinknet.cluster.launch.process_output import OnOutput, OnPrinted, print_printed
from flinknet.config import FlinknetConfig

__all__ = ["LocalCluster"]


class LocalCluster(Cluster):
    """Coordinator and workers as children of this process; ``cluster.launcher`` is ignored."""

    _launcher: LocalLauncher

    def __init__(
        self,
        config: FlinknetConfig | None = None,
        *,
        on_output: OnOutput | None = None,
        on_printed: OnPrinted = print_printed,
    ) -> None:
        """See ``Cluster``; ``config`` defaults to the default configuration."""
        super().__init__(
            config or FlinknetConfig(), LocalLauncher, on_output=on_output, on_printed=on_printed
        )

    def pids(self) -> dict[str, int]:
        """Return the process id of the coordinator and of each worker, by name."""
        return self._launcher.pids()
