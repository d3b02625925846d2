"""The sinks that collect and print: kept, printed and refused records."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from flinknet.datastream import CollectSink, PrintSink
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.operators.sink import SinkOperator
from flinknet.state.state_handler import StateHandler
from tests.unit.operators.harness import Harness, context


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, [1, 2, 3]), (2, [1, 2]), (0, []), (9, [1, 2, 3])]
)
async def test_collect(limit: int | None, expected: list[int]) -> None:
    async with Harness(SinkOperator(CollectSink(limit))) as harness:
        await harness.process(1)
        await harness.process(2, 3)

        assert harness.context.collected == {"tested": expected}


async def test_collect_refuses_more_records_than_it_may_keep() -> None:
    """With ``limit`` the program asks to drop further records. Without it, none may be dropped."""
    async with Harness(SinkOperator(CollectSink()), context(collect_records_max=3)) as harness:
        await harness.process(1, 2)
        await harness.process(3)
        with pytest.raises(
            JobFailedError,
            match=r'"tested" holds more than cluster\.collect_records_max = 3 records: .*limit',
        ):
            await harness.process(4)

        assert harness.context.collected == {"tested": [1, 2, 3]}


@pytest.mark.parametrize(("limit", "refused"), [(3, False), (4, True)])
async def test_collect_with_a_limit_is_refused_only_what_the_limit_lets_through(
    limit: int, refused: bool
) -> None:
    place = context(collect_records_max=3)
    async with Harness(SinkOperator(CollectSink(limit)), place) as harness:
        with pytest.raises(JobFailedError, match="= 3 records") if refused else nullcontext():
            await harness.process(1, 2, 3, 4, 5)

        assert harness.context.collected == {"tested": [] if refused else [1, 2, 3]}


@pytest.mark.parametrize("parallelism", [1, 2, 3])
async def test_collect_with_a_limit_goes_on_at_another_parallelism(parallelism: int) -> None:
    """A subtask gets the kept records of several, and keeps as many as it may."""
    parts = []
    for index in range(3):
        place = context(index=index, parallelism=3, state=StateHandler(uid="tested"))
        async with Harness(SinkOperator(CollectSink(2)), place) as harness:
            await harness.process(index, index, "beyond")
            harness.operator.prepare_snapshot(1)
            snapshot = place.state.snapshot(1, 0)
            list(snapshot.slices())
            parts.append(b"".join(map(bytes, snapshot.operator_pieces())))
    for index in range(parallelism):
        state = StateHandler(uid="tested", index=index, parallelism=parallelism)
        place = context(index=index, parallelism=parallelism, state=state)
        list(state.restore(1, [], parts))
        async with Harness(SinkOperator(CollectSink(2)), place) as harness:
            await harness.process("late", "late", "late", "late", "late")
            (collected,) = place.collected.values()
        assert len(collected) == 2
        assert set(collected) <= {0, 1, 2}


def test_collect_limit_below_zero() -> None:
    with pytest.raises(ConfigurationError, match="limit is -1"):
        CollectSink(-1)


async def test_printed_records_do_not_rule_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Escape sequences are quoted, and characters that cannot be encoded do not fail the job."""
    async with Harness(SinkOperator(PrintSink()), context()) as harness:
        await harness.process("\x1b[2J", "half \ud83d", "two\nlines")

    assert capsys.readouterr().out == "\\x1b[2J\nhalf \\ud83d\ntwo\nlines\n"


@pytest.mark.parametrize(
    ("identifier", "parallelism", "expected"),
    [
        ("", 1, "7\nx\n"),
        ("", 2, "2> 7\n2> x\n"),
        ("in", 1, "in> 7\nin> x\n"),
        ("in", 2, "in:2> 7\nin:2> x\n"),
    ],
)
async def test_print(
    capsys: pytest.CaptureFixture[str], identifier: str, parallelism: int, expected: str
) -> None:
    """The prefixes are PyFlink's: the identifier, and the subtask from 1 if there are several."""
    place = context(index=parallelism - 1, parallelism=parallelism)
    async with Harness(SinkOperator(PrintSink(identifier)), place) as harness:
        await harness.process(7, "x")

    assert capsys.readouterr().out == expected
