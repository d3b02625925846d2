"""Whether and how the data of several channels has ended."""

from __future__ import annotations

import pytest

from flinknet.consumer.end_of_data import EndOfData


@pytest.mark.parametrize(
    ("drained", "expected"),
    [
        ([None], EndOfData.NOT_END_OF_DATA),
        ([True, None], EndOfData.NOT_END_OF_DATA),
        ([False, None], EndOfData.NOT_END_OF_DATA),
        ([True, True], EndOfData.DRAINED),
        ([False, True], EndOfData.STOPPED),
        ([False], EndOfData.STOPPED),
    ],
)
def test_it_has_ended_when_all_have_and_is_drained_if_all_are(
    drained: list[bool | None], expected: EndOfData
) -> None:
    """I2."""
    assert EndOfData.of(drained) is expected
