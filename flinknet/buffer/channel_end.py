"""The end of a channel, as both of its ends keep it: one table of what may follow what.

Theory of operation. A channel carries data, then END_OF_DATA; its reader acknowledges when it has
processed all of it; then END_OF_PARTITION follows, and nothing behind that. Each holder of one end
keeps the state that it knows of and takes ``after`` for each step; what is not in the table is
refused, or a stream that was cut short or goes on behind its end would pass for a whole one. The
holders are the subpartition (what is written), the subpartition reader (what is sent), the remote
channel (what arrives) and every input channel (what its task has taken).

Events that are neither end may come at any time before the end of the partition, also behind the
end of data: a last checkpoint does. That a channel fails, is cancelled or is lost is no step: it
may happen in every state, and nothing follows then.
"""

from __future__ import annotations

from enum import Enum

from flinknet.buffer.buffer import DataType

__all__ = ["ChannelEnd", "ChannelStep"]


class ChannelStep(Enum):
    """What moves a channel on; the value is how messages call it."""

    DATA = "data"
    EVENT = "an event"
    END_OF_DATA = "END_OF_DATA"
    ACKNOWLEDGEMENT = "the acknowledgement of all data"
    END_OF_PARTITION = "END_OF_PARTITION"

    @classmethod
    def of(cls, data_type: DataType) -> ChannelStep:
        """Return the step that a buffer or an event is."""
        return _BY_TYPE.get(data_type, cls.EVENT)


class ChannelEnd(Enum):
    """How far a channel is; the value is what messages say of it."""

    DATA = "its data has not ended"
    END_OF_DATA = "its data has ended and has not been acknowledged"
    ACKNOWLEDGED = "its data has ended and has been acknowledged"
    END_OF_PARTITION = "its partition has ended"

    def after(self, step: ChannelStep, error: type[Exception], owner: object) -> ChannelEnd:
        """Return the state after a step. Raises ``error``, which names the owner, for a step that
        must not come in this state."""
        following = _AFTER.get((self, step))
        if following is None:
            raise error(f"{step.value} must not come on {owner}: {self.value}")
        return following


_BY_TYPE = {
    DataType.DATA_BUFFER: ChannelStep.DATA,
    DataType.DATA_BUFFER_WITH_CLEAR_END: ChannelStep.DATA,
    DataType.END_OF_DATA: ChannelStep.END_OF_DATA,
    DataType.END_OF_PARTITION: ChannelStep.END_OF_PARTITION,
}

_AFTER = {
    (ChannelEnd.DATA, ChannelStep.DATA): ChannelEnd.DATA,
    (ChannelEnd.DATA, ChannelStep.EVENT): ChannelEnd.DATA,
    (ChannelEnd.DATA, ChannelStep.END_OF_DATA): ChannelEnd.END_OF_DATA,
    (ChannelEnd.END_OF_DATA, ChannelStep.EVENT): ChannelEnd.END_OF_DATA,
    (ChannelEnd.END_OF_DATA, ChannelStep.ACKNOWLEDGEMENT): ChannelEnd.ACKNOWLEDGED,
    (ChannelEnd.ACKNOWLEDGED, ChannelStep.EVENT): ChannelEnd.ACKNOWLEDGED,
    (ChannelEnd.ACKNOWLEDGED, ChannelStep.END_OF_PARTITION): ChannelEnd.END_OF_PARTITION,
}
