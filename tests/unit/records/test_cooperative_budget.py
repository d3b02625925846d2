from __future__ import annotations

import pytest

from flinknet.records.cooperative_budget import (
    CooperativeBudget,
    records_between_turns,
    yield_to_loop,
)
from tests.unit.arrangements import Running


@pytest.mark.parametrize(
    ("records_per_buffer", "buffers"), [(0, 5), (1, 5), (2, 5), (32, 4), (240, 1), (1_900, 1)]
)
def test_a_budget_is_so_many_buffers(records_per_buffer: int, buffers: int) -> None:
    """They may be full of small records, or have a few large records, or hardly any."""
    budget = CooperativeBudget()
    asked = range(1, 4 * buffers + 1)
    over = [number for number in asked if budget.spend(1, records_per_buffer)]
    assert over == list(range(buffers, 4 * buffers + 1, buffers))


@pytest.mark.parametrize(
    ("channels", "records"), [(1, 4_096), (8, 4_096), (9, 4_608), (1_000, 512_000)]
)
def test_few_channels_get_as_many_records_as_one(channels: int, records: int) -> None:
    assert records_between_turns(channels) == records


def test_to_yield_is_one_suspension_that_waits_for_nothing() -> None:
    async def let_others_run() -> None:
        await yield_to_loop()

    yielding = Running(let_others_run(), start=False)
    yielding.step()
    assert not yielding.done
    assert yielding.waits_for is None
    yielding.step()
    assert yielding.done
