"""The most that an unaligned checkpoint stores of what is in flight, worker by worker.

Theory of operation. Two numbers, since one alone would be useless or wrong:

- what can be in flight *at once*. Network buffers hold it: those of a gate's credit, those of a
  partition's pool with its overdraft, and no more than the worker has. A buffer that is broadcast
  is one, and stored for each consumer. Beside buffers there are, for each channel, the part of a
  record that has come, and, for each gate, the rest of a batch that is being processed, with the
  long record that ended in it. That is what a checkpoint stores whose barriers come to a subtask
  together.
- the *limit*, ``channel_state_bytes_max`` of each subtask. A subtask goes on processing between its
  first barrier and its last one, its credit with it, and what still comes in front of the last one
  is stored, too: that is as much as producers send until then, which no buffer bounds. A checkpoint
  of which a subtask would store more is given up. Workers keep what they collect in memory until it
  is written, so that the limit is one of their memory as well.

Chunks have headers in the parts of a checkpoint; the first number has them in it, the limit not.
"""

from __future__ import annotations

from typing import NamedTuple

from flinknet.config import FlinknetConfig, NetworkConfig
from flinknet.graph.buffer_needs import WorkerNeeds

__all__ = ["ChannelStateBound", "channel_state_bound"]

_HEADER_BYTES = 4
"""The length in front of each chunk."""

_PIECES_BYTES_LEAST = 1024
"""A part of a record is stored in pieces, of which all but the last have more."""


class ChannelStateBound(NamedTuple):
    """Bytes."""

    network_buffers: int
    """What the buffers of gates and partitions hold, if all are full."""
    broadcast_copies: int
    """The same buffers once more, for each further consumer of what is broadcast."""
    unfinished_records: int
    """Records of the largest size of which a part has come, or that stand in a batch under way."""
    limit: int
    """Beyond it a checkpoint is given up."""

    @property
    def at_once(self) -> int:
        """What can be in flight at one moment, and be stored."""
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
    """The record that ended in a buffer, and records of one byte behind it, each a chunk."""
    first = network.record_bytes_max + _HEADER_BYTES
    return first + network.segment_bytes * (1 + _HEADER_BYTES)
