"""Collections, generators and rates: shares, laziness and the open-loop schedule."""

from __future__ import annotations

import time
from itertools import islice

import pytest

from flinknet.datastream import (
    CollectionSource,
    GeneratorSource,
    RateLimitedSource,
    append_time,
)
from flinknet.errors import ConfigurationError
from flinknet.functions.calls import BATCH_RECORDS
from flinknet.operators.source import Share, read
from tests.unit.operators.harness import context
from tests.unit.operators.letters import Letters, LettersLater, records_of


async def test_collection_is_dealt_out() -> None:
    source = CollectionSource(range(3000))

    shares = [await records_of(source, index, 3) for index in range(3)]

    assert [len(share) for share in shares] == [1000] * 3
    assert sorted(record for share in shares for record in share) == list(range(3000))
    assert shares[1][:3] == [1, 4, 7]


async def test_generator_numbers_are_dealt_out() -> None:
    source = GeneratorSource(lambda number: number * 10, 2501)

    shares = [await records_of(source, index, 2) for index in range(2)]

    assert shares[0] == list(range(0, 25010, 20))
    assert shares[1] == list(range(10, 25010, 20))


async def test_endless_generator_makes_records_as_they_are_taken() -> None:
    made: list[int] = []
    source = GeneratorSource(made.append)

    (batch,) = islice(source.batches(context()), 1)
    first_three = list(islice(batch, 3))

    assert len(batch) == BATCH_RECORDS
    assert first_three == [None] * 3
    assert made == [0, 1, 2]


@pytest.mark.parametrize("precise", [False, True])
async def test_intended_times_follow_the_schedule(precise: bool) -> None:
    """Record i is intended at start + i / rate, in whole nanoseconds, whenever it is emitted."""
    source = GeneratorSource(lambda number: (number,), 500)
    limited = RateLimitedSource(source, 30_000, stamp=append_time, precise=precise)

    records = await records_of(limited)

    assert [number for number, _ in records] == list(range(500))
    start = records[0][1]
    assert [time_ns - start for _, time_ns in records] == [
        round(number * 1e9 / 30_000) for number in range(500)
    ]


async def test_no_record_leaves_before_its_time() -> None:
    source = GeneratorSource(lambda number: (number,), 200)
    limited = RateLimitedSource(source, 20_000, stamp=append_time)

    async for batch in limited.batches(context()):
        assert max(time_ns for _, time_ns in batch) <= time.monotonic_ns()


async def test_subtasks_share_the_schedule() -> None:
    """Subtask k of p sends the records k, k + p, ... of one schedule."""
    source = RateLimitedSource(
        GeneratorSource(lambda number: (number,), 30), 3000, stamp=append_time
    )

    for index in range(3):
        before = time.monotonic_ns()
        records = await records_of(source, index, 3)
        offset = round(index * 1e9 / 3000)

        assert [number for number, _ in records] == list(range(index, 30, 3))
        assert before + offset <= records[0][1] <= time.monotonic_ns()
        assert [time_ns - records[0][1] for _, time_ns in records] == [
            number * 1_000_000 for number in range(10)
        ]


async def test_a_late_source_sends_everything_that_is_due() -> None:
    """The schedule does not slow down: delayed records keep their intended times."""
    source = GeneratorSource(lambda number: (number,), 400)
    batches = RateLimitedSource(source, 100_000, stamp=append_time).batches(context())
    first = await anext(batches)
    start = first[0][1]
    while time.monotonic_ns() < start + 400 * 10_000:
        pass  # held back, as by backpressure, until all 400 records are due

    second = await anext(batches)

    assert len(first) + len(second) == 400
    assert [time_ns - start for _, time_ns in second] == [
        number * 10_000 for number in range(len(first), 400)
    ]
    await batches.aclose()  # type: ignore[attr-defined]


async def test_generated_records_are_made_when_they_are_due() -> None:
    made_ns: list[int] = []

    def note(number: int) -> tuple[int]:
        made_ns.append(time.monotonic_ns())
        return (number,)

    limited = RateLimitedSource(GeneratorSource(note, 20), 10_000, stamp=append_time)

    records = await records_of(limited)

    assert all(made >= intended for made, (_, intended) in zip(made_ns, records, strict=True))


async def test_any_source_can_be_limited() -> None:
    assert await records_of(RateLimitedSource(LettersLater(), 1e6)) == ["a", "b", "c"]


@pytest.mark.parametrize("rate", [0, -1, float("inf"), float("nan")])
def test_rate_that_is_none(rate: float) -> None:
    with pytest.raises(ConfigurationError, match=r"records_per_s is .*: choose a positive rate"):
        RateLimitedSource(Letters(), rate)


def test_wrong_generators() -> None:
    with pytest.raises(ConfigurationError, match="the generator is a int, not callable"):
        GeneratorSource(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="count is -1"):
        GeneratorSource(str, -1)


@pytest.mark.parametrize("limited", [False, True])
async def test_the_rest_can_be_read_by_several_subtasks(limited: bool) -> None:
    """Each part is a share of its own, as the source distributes records one by one."""
    generated = GeneratorSource(int, 100)
    source = RateLimitedSource(generated, 1e9) if limited else generated
    assert source.deals_out_records
    shares = [Share(0, 2, 7).part(number, 3) for number in range(3)]
    found = [
        record
        for subtask, subtasks, position in shares
        async for batch in read(source, context(index=subtask, parallelism=subtasks), position)
        for record in batch
    ]
    assert sorted(found) == list(range(14, 100, 2))
