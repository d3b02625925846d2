"""State backends in PyFlink's names: what ``set_state_backend`` takes."""

from __future__ import annotations

from typing import ClassVar

from flinknet.config.state import StateBackendName
from flinknet.errors import ConfigurationError

__all__ = ["EmbeddedRocksDBStateBackend", "HashMapStateBackend", "StateBackend"]


class StateBackend:
    """Where the keyed state of a running job is kept; the base of the others."""

    name: ClassVar[StateBackendName]


class HashMapStateBackend(StateBackend):
    """As objects in memory."""

    name = "hashmap"


class EmbeddedRocksDBStateBackend(StateBackend):
    """The entries in use as objects in memory, the others on the workers' disks: for state that is
    larger than memory. Workers need flinknet[rocksdb]; ``[state]`` in their configuration has the
    sizes, and the directory. A value that a function changes in place is to be given to ``update``
    then, as in Flink: the object itself may leave memory."""

    name = "rocksdb"

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if enable_incremental_checkpointing:
            raise ConfigurationError(
                "incremental checkpoints are not there: every checkpoint has all of the state; "
                "leave enable_incremental_checkpointing out"
            )
