"""The unknown input channel: a placeholder in a gate until its producer has a location.

It can only be released, or replaced by a local or remote channel (``InputGate.update_channel``).
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
    """Channel without data and without a producer."""

    def poll(self) -> tuple[Buffer, DataType] | None:
        """Return None; see InputChannel."""
        return None

    @property
    def buffers_in_use(self) -> int:
        """Always 0."""
        return 0

    def start_persisting(self, checkpoint_id: int, persist: Persist) -> bool:
        """Return False: no data has arrived, and later data is unknown here."""
        return False

    def announce_buffer_size(self, size_bytes: int) -> None:
        """Do nothing, because the producer is not known."""

    def resume_consumption(self) -> None:
        """Raise AssertionError: no delivered buffer could have blocked."""
        raise AssertionError("consumption of a channel without a producer was resumed")

    def acknowledge_all_data_processed(self) -> None:
        """Raise AssertionError: no data has ended."""
        raise AssertionError("the data of a channel without a producer was acknowledged")

    def release(self) -> None:
        """Stop; idempotent."""
        self._become(ChannelEvent.RELEASE)

    def statistics(self) -> InputChannelStatistics:
        """Return the location only; all counts are 0."""
        return InputChannelStatistics(
            channel=self.index,
            kind="unknown",
            location=self.location,
            released=self.released,
        )

    def check_invariants(self) -> None:
        """Do nothing: an unknown channel has no accounts."""
