"""The end of a channel: the state table that both of its ends follow.

A channel carries data and then END_OF_DATA. Its reader acknowledges once it has processed all data.
END_OF_PARTITION follows, and nothing comes after it. Each holder of an end keeps the state it knows
and calls ``after`` for each step. Steps that are not in the table are refused. Otherwise a stream
that was cut short, or that continues behind its end, would pass for a complete one. The holders are
the subpartition (data written), the subpartition reader (data sent), the remote channel (data
received) and every input channel (data taken by its task).

Other events may come at any time before END_OF_PARTITION, and also after END_OF_DATA: a last
checkpoint does. Failure, cancellation and loss of a channel are not steps. They can happen in every
state, and nothing follows them.
"""

from __future__ import annotations

from enum import Enum

from flinknet.buffer.buffer import DataType

__all__ = ["ChannelEnd", "ChannelStep"]


class ChannelStep(Enum):
    """Step of a channel; error messages print the value."""

    DATA = "data"
    EVENT = "an event"
    END_OF_DATA = "END_OF_DATA"
    ACKNOWLEDGEMENT = "the acknowledgement of all data"
    END_OF_PARTITION = "END_OF_PARTITION"

    @classmethod
    def of(cls, data_type: DataType) -> ChannelStep:
        """Return the step that a buffer of this type takes."""
        return _BY_TYPE.get(data_type, cls.EVENT)


class ChannelEnd(Enum):
    """Progress of a channel towards its end; error messages print the value."""

    DATA = "its data has not ended"
    END_OF_DATA = "its data has ended and has not been acknowledged"
    ACKNOWLEDGED = "its data has ended and has been acknowledged"
    END_OF_PARTITION = "its partition has ended"

    def after(self, step: ChannelStep, error: type[Exception], owner: object) -> ChannelEnd:
        """Return the state after a step.

        Raises ``error``, with ``owner`` in its message, if the step is not allowed in this state.
        """
        following = _AFTER.get((self, step))
        if following is None:
            raise error(f"{step.value} must not arrive on {owner}: {self.value}")
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
