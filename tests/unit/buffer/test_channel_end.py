from __future__ import annotations

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.buffer.channel_end import ChannelEnd, ChannelStep
from flinknet.errors import LocalProtocolError, RemoteProtocolError

TABLE = """
                  data  an-event          END_OF_DATA  acknowledgement  END_OF_PARTITION
DATA              DATA  DATA              END_OF_DATA  -                -
END_OF_DATA       -     END_OF_DATA       -            ACKNOWLEDGED     -
ACKNOWLEDGED      -     ACKNOWLEDGED      -            -                END_OF_PARTITION
END_OF_PARTITION  -     -                 -            -                -
"""
"""Written out by hand, not derived: a row is a state, a column is a step, `-` is a refused step."""

STEPS = list(ChannelStep)


def rows() -> list[tuple[ChannelEnd, ChannelStep, str]]:
    _, *lines = TABLE.strip().splitlines()
    return [
        (ChannelEnd[state], step, cell)
        for state, *cells in map(str.split, lines)
        for step, cell in zip(STEPS, cells, strict=True)
    ]


@pytest.mark.parametrize(("state", "step", "following"), rows())
def test_a_channel_ends_in_one_order(state: ChannelEnd, step: ChannelStep, following: str) -> None:
    """D12, I2: every row of the table."""
    if following != "-":
        assert state.after(step, RemoteProtocolError, "channel 3") is ChannelEnd[following]
        return
    for error in (RemoteProtocolError, LocalProtocolError):
        with pytest.raises(error) as refused:
            state.after(step, error, "channel 3")
        assert str(refused.value) == f"{step.value} must not arrive on channel 3: {state.value}"


def test_the_table_has_every_state() -> None:
    assert list(dict.fromkeys(state for state, _, _ in rows())) == list(ChannelEnd)


@pytest.mark.parametrize("data_type", [t for t in DataType if t is not DataType.NONE])
def test_every_type_is_a_step(data_type: DataType) -> None:
    """Only the two ends differ from ordinary events."""
    ends = {
        DataType.END_OF_DATA: ChannelStep.END_OF_DATA,
        DataType.END_OF_PARTITION: ChannelStep.END_OF_PARTITION,
    }
    other = ChannelStep.DATA if data_type.is_buffer else ChannelStep.EVENT
    assert ChannelStep.of(data_type) is ends.get(data_type, other)
