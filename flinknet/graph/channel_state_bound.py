"""Upper bounds for the data in flight that an unaligned checkpoint stores, per worker.

Theory of operation. There are two numbers, because one alone would be useless or wrong:

- The data in flight *at once*. It is held by network buffers: by a gate's credit, and by a
  partition's pool with its overdraft, up to the buffers of the worker. A broadcast buffer exists
  once and is stored for each consumer. In addition, each channel may have a partial record. Each
  gate may have the rest of a batch in progress, with the long record that ended in it. A checkpoint
  stores this much if its barriers reach a subtask together.
- The *limit*, ``channel_state_bytes_max`` for each subtask. A subtask processes data between its
  first and its last barrier, and returns credit. Data that arrives before the last barrier is
  stored, too. Its amount depends on the producers, and no number of buffers bounds it. A checkpoint
  that exceeds the limit in a subtask is aborted. Workers keep the collected data in memory until it
  is written, so the limit bounds their memory as well.

Chunks have headers in the parts of a checkpoint. The first number includes them, the limit does
not.
"""

from __future__ import annotations

from typing import NamedTuple

from flinknet.config import FlinknetConfig, NetworkConfig
from flinknet.graph.buffer_needs import WorkerNeeds

__all__ = ["ChannelStateBound", "channel_state_bound"]

_HEADER_BYTES = 4
"""Size of the length in front of each chunk."""

_PIECES_BYTES_LEAST = 1024
"""A partial record is stored in pieces; all but the last are larger than this."""


class ChannelStateBound(NamedTuple):
    """Bounds in bytes."""

    network_buffers: int
    """Contents of all buffers of gates and partitions, if they are full."""
    broadcast_copies: int
    """The same buffers again for each further consumer of a broadcast."""
    unfinished_records: int
    """Partial records, and the rests of batches in progress, in the worst case."""
    limit: int
    """Amount beyond which a checkpoint is aborted."""

    @property
    def at_once(self) -> int:
        """Maximum in flight at one moment that a checkpoint stores."""
        return min(
            self.network_buffers + self.broadcast_copies + self.unfinished_records, self.limit
        )


def channel_state_bound(worker: WorkerNeeds, config: FlinknetConfig) -> ChannelStateBound:
    """Compute the bound of a worker that runs nothing else."""
    network = config.network
    held = [owner.need(network).most for owner in worker.owners]
    copies = sum(
        (owner.local + owner.remote - 1) * min(most, network.segments)
        for owner, most in zip(worker.owners, held, strict=True)
        if owner.is_broadcast
    )
    buffer_bytes = network.segment_bytes + _HEADER_BYTES
    channels = worker.shape.local_channels + worker.shape.remote_channels
    return ChannelStateBound(
        network_buffers=min(sum(held), network.segments) * buffer_bytes,
        broadcast_copies=copies * buffer_bytes,
        unfinished_records=channels * _part_of_a_record(network)
        + worker.shape.gates * _rest_of_a_batch(network),
        limit=worker.subtasks * config.checkpointing.channel_state_bytes_max,
    )


def _part_of_a_record(network: NetworkConfig) -> int:
    pieces = network.record_bytes_max // _PIECES_BYTES_LEAST + 1
    return network.record_bytes_max + pieces * _HEADER_BYTES


def _rest_of_a_batch(network: NetworkConfig) -> int:
    """Return the size of the rest of a batch, in the worst case.

    It consists of a long record that ended in the buffer, and of one-byte records, each a chunk.
    """
    first = network.record_bytes_max + _HEADER_BYTES
    return first + network.segment_bytes * (1 + _HEADER_BYTES)
