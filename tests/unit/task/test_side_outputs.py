"""Side outputs: what is sorted where."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.errors import ConfigurationError
from flinknet.task.side_outputs import OutputTag, split_outputs

LATE, ODD = OutputTag("late"), OutputTag("odd")


class Kept:
    def __init__(self) -> None:
        self.batches: list[list[Any]] = []

    async def emit(self, records: list[Any]) -> None:
        self.batches.append(records)


async def test_tagged_results_go_aside() -> None:
    main, odd = Kept(), Kept()
    emit = split_outputs(main.emit, {"odd": odd.emit}, stamped=False)
    await emit([2, (ODD, 3), (4, 5), (LATE, 0), (ODD, 7), ()])
    await emit([(ODD, 9)])
    assert main.batches == [[2, (4, 5), ()]]
    assert odd.batches == [[3, 7], [9]]


async def test_a_side_output_keeps_the_timestamp() -> None:
    main, odd = Kept(), Kept()
    emit = split_outputs(main.emit, {"odd": odd.emit}, stamped=True)
    await emit([(10, 2), (11, (ODD, 3)), (None, (ODD, 5))])
    assert main.batches == [[(10, 2)]]
    assert odd.batches == [[(11, 3), (None, 5)]]


@pytest.mark.parametrize("name", ["", 5, None])
def test_a_tag_has_a_name(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="choose a name"):
        OutputTag(name)


def test_tags_of_one_name_are_one() -> None:
    assert OutputTag("late") == LATE
    assert {LATE: 1}[OutputTag("late")] == 1
