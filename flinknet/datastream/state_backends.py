"""State backends for ``set_state_backend``, with PyFlink's names."""

from __future__ import annotations

from typing import ClassVar

from flinknet.config.state import StateBackendName
from flinknet.errors import ConfigurationError

__all__ = ["EmbeddedRocksDBStateBackend", "HashMapStateBackend", "StateBackend"]


class StateBackend:
    """Base of the state backends: where a running job keeps keyed state."""

    name: ClassVar[StateBackendName]


class HashMapStateBackend(StateBackend):
    """Keeps keyed state as objects in memory."""

    name = "hashmap"


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps keyed state larger than memory: entries in use in memory, the others on disk.

    The disks are the workers'. Workers need flinknet[rocksdb]; the ``[state]`` section of their
    configuration sets sizes and the directory. A function that changes a value in place must pass
    it to ``update``, as in Flink, because the object itself may leave memory.
    """

    name = "rocksdb"

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if enable_incremental_checkpointing:
            raise ConfigurationError(
                "incremental checkpoints are not supported: every checkpoint has the whole state; "
                "omit enable_incremental_checkpointing"
            )
