"""The unknown input channel: stands in a gate until its producer's place is known.

It can only be released or be replaced by a local or remote channel (``InputGate.update_channel``).
"""

from __future__ import annotations

from flinknet.buffer.buffer import Buffer, DataType
from flinknet.consumer.channel_state_persister import Persist
from flinknet.consumer.input_channel import (
    ChannelEvent,
    InputChannel,
    InputChannelStatistics,
)

__all__ = ["UnknownInputChannel"]


class UnknownInputChannel(InputChannel):
    """Has nothing, and nobody to talk to."""

    def poll(self) -> tuple[Buffer, DataType] | None:
        """There is nothing; see InputChannel."""
        return None

    @property
    def buffers_in_use(self) -> int:
        """None."""
        return 0

    def start_persisting(self, checkpoint_id: int, persist: Persist) -> bool:
        """Nothing has come, and what will is not known here: it cannot take part."""
        return False

    def announce_buffer_size(self, size_bytes: int) -> None:
        """Nobody is there to learn of it."""

    def resume_consumption(self) -> None:
        """A programming error: nothing was delivered that could have blocked."""
        raise AssertionError("consumption of a channel without a producer was resumed")

    def acknowledge_all_data_processed(self) -> None:
        """A programming error: no data has ended."""
        raise AssertionError("the data of a channel without a producer was acknowledged")

    def release(self) -> None:
        """Stop; idempotent."""
        self._become(ChannelEvent.RELEASE)

    def statistics(self) -> InputChannelStatistics:
        """Nothing is queued, and nothing has come."""
        return InputChannelStatistics(
            channel=self.index,
            kind="unknown",
            location=self.location,
            released=self.released,
        )

    def check_invariants(self) -> None:
        """An unknown channel has no accounts."""
