"""Side outputs: which results go to which output."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.functions.type_information import Types
from flinknet.operators.operators import Emit, Operator
from flinknet.operators.side_outputs import OutputTag, split_outputs
from flinknet.operators.timestamped_batch import Batch, TimestampedBatch, on_wire
from tests.unit.operators.harness import Harness

LATE, ODD = OutputTag("late"), OutputTag("odd")


class Kept:
    def __init__(self) -> None:
        self.batches: list[Batch] = []

    async def emit(self, records: Batch) -> None:
        self.batches.append(records)


def split(main: Emit, sides: dict[str, Emit]) -> Emit:
    return split_outputs(main, sides, Operator())


async def test_tagged_results_go_aside() -> None:
    main, odd = Kept(), Kept()
    emit = split(main.emit, {"odd": odd.emit})
    await emit([2, (ODD, 3), (4, 5), (LATE, 0), (ODD, 7), ()])
    await emit([(ODD, 9)])
    assert main.batches == [[2, (4, 5), ()]]
    assert odd.batches == [[3, 7], [9]]


async def test_a_side_output_keeps_the_timestamp() -> None:
    main, odd = Kept(), Kept()
    emit = split(main.emit, {"odd": odd.emit})
    await emit(TimestampedBatch.of([(10, 2), (11, (ODD, 3)), (None, (ODD, 5))]))
    assert list(map(on_wire, main.batches)) == [[(10, 2)]]
    assert list(map(on_wire, odd.batches)) == [[(11, 3), (None, 5)]]


@pytest.mark.parametrize("stamped", [False, True])
async def test_a_batch_without_tags_goes_on_as_it_is(stamped: bool) -> None:
    """Other values in the place of a tag do not matter, not even the name of a tag."""
    main = Kept()
    values = ["odd", ("odd", 1), (), (OutputTag, 1), [ODD, 1], {ODD: 1}, ((ODD, 1),), (1, ODD)]
    batch: Batch = TimestampedBatch(values, [5] * len(values)) if stamped else values
    await split(main.emit, {})(batch)
    assert main.batches[0] is batch


@pytest.mark.parametrize("result", [ODD, (ODD,), (ODD, 1, 2)])
@pytest.mark.parametrize("stamped", [False, True])
async def test_a_tag_has_one_value(result: Any, stamped: bool) -> None:
    main = Kept()
    async with Harness(Operator()) as harness:
        emit = split_outputs(main.emit, {}, harness.operator)
        with pytest.raises(JobFailedError, match='"tested".*yield a tag and one value, tag, value'):
            await emit(TimestampedBatch([result], [5]) if stamped else [result])
    assert main.batches == []


async def test_a_value_that_is_not_what_its_tag_says_names_the_operator() -> None:
    async with Harness(Operator()) as harness:
        emit = split_outputs(Kept().emit, {}, harness.operator)
        with pytest.raises(JobFailedError, match='"tested".*failed to give a result to a side'):
            await emit([(OutputTag("number", Types.LONG()), "no number")])


def test_a_process_knows_whether_a_tag_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not matter how the tag is created. Programs without tags have no cost of tags."""
    packed = pickle.dumps(ODD)
    for appear in (
        lambda: OutputTag("other"),
        lambda: pickle.loads(packed),
        lambda: copy.copy(ODD),
        lambda: copy.deepcopy(ODD),
    ):
        monkeypatch.setattr(OutputTag, "exists", False)
        assert isinstance(appear(), OutputTag)
        assert OutputTag.exists
    typed = pickle.loads(pickle.dumps(OutputTag("typed", Types.LONG())))
    assert typed.type == Types.LONG()


def test_a_tag_is_no_base_class() -> None:
    with pytest.raises(ConfigurationError, match="cannot be subclassed"):
        type("Own", (OutputTag,), {})


@pytest.mark.parametrize("name", ["", 5, None])
def test_a_tag_has_a_name(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="choose a name"):
        OutputTag(name)


def test_tags_of_one_name_are_one() -> None:
    assert OutputTag("late") == LATE
    assert {LATE: 1}[OutputTag("late")] == 1
    typed = OutputTag("late", Types.INT())
    assert (typed, {typed: 1}[LATE]) == (LATE, 1), "whether or not its type is declared"
