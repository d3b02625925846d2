"""Functions that change the objects that they have emitted, and functions that raise no Exception.

A record keeps the value that it was emitted with. The error for a BaseException names the operator
and the record. Each operator emits one object three times, as 1, 2 and 3, before any operator
behind it runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.datastream import GeneratorSource, RateLimitedSource
from flinknet.errors import JobFailedError
from flinknet.functions.async_retry import NO_RETRY_STRATEGY
from flinknet.functions.context import RuntimeContext
from flinknet.functions.durations import Time
from flinknet.functions.functions import AggregateFunction, Function, KeyedProcessFunction
from flinknet.functions.triggers import CountTrigger, Trigger
from flinknet.functions.window_functions import (
    AggregatedContents,
    ElementContents,
    ReducedContents,
    WindowContents,
)
from flinknet.functions.windows import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from flinknet.graph.graph import ChainedOperator, JobVertex
from flinknet.operators.async_wait_operator import AsyncWaitOperator
from flinknet.operators.batch_operators import MapBatchOperator, ProcessBatchOperator
from flinknet.operators.keyed_operators import (
    AggregateOperator,
    KeyedFilterOperator,
    KeyedFlatMapOperator,
    KeyedMapOperator,
    KeyedProcessOperator,
    ReduceOperator,
)
from flinknet.operators.operators import (
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    Operator,
    ProcessOperator,
)
from flinknet.operators.source import Batches, Source, SourceOperator
from flinknet.operators.two_input_operator import (
    BroadcastProcessOperator,
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
)
from flinknet.operators.typed_records import InputType
from flinknet.operators.window_operator import WindowOperator
from flinknet.runtime.chain import OperatorChain, RecordWriterOutput
from flinknet.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from flinknet.wire.events import Watermark
from tests.unit.operators.harness import context
from tests.unit.operators.letters import mails_and_slices
from tests.unit.operators.manual_time import ManualTime
from tests.unit.records.writing import Arranged

EXPECTED = [{"n": 1}, {"n": 2}, {"n": 3}]

SEEN: list[list[Any]] = []
"""The records of a chain's consumers; not attributes, as the chain copies its functions."""

Factory = Callable[[], Operator]


def key_of(value: Any) -> int:
    return 0


def plain(record: Any) -> Any:
    return record


def second(record: Any) -> Any:
    return record[1]


class Own:
    """One object, which is changed and emitted again, in each way that a function can do so."""

    def __init__(self) -> None:
        self.row = {"n": 0}

    def next(self, *_: Any) -> dict[str, int]:
        self.row["n"] += 1
        return self.row

    def listed(self, *_: Any) -> list[Any]:
        return [self.next()]

    def generated(self, *_: Any) -> Iterator[Any]:
        yield self.next()

    async def next_later(self, *_: Any) -> Any:
        return self.next()

    async def listed_later(self, *_: Any) -> list[Any]:
        return self.listed()

    async def generated_later(self, *_: Any) -> AsyncIterator[Any]:
        yield self.next()

    def all_at_once(self, *_: Any) -> Iterator[Any]:
        return (self.next() for _ in EXPECTED)

    async def all_later(self, *_: Any) -> AsyncIterator[Any]:
        for _number in EXPECTED:
            yield self.next()


class Keeping:
    """Keeps each record, and changes the earlier ones whenever it gets one."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def take(self, record: Any) -> Any:
        for one in self.kept:
            one["n"] = "changed"
        self.kept.append(record)
        return record

    async def take_later(self, record: Any) -> Any:
        return self.take(record)


class InState(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.row = runtime_context.get_state(ValueStateDescriptor("row"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        row: Any = self.row.value() or {"n": 0}
        row["n"] += 1
        self.row.update(row)
        yield row


class ListInState(InState):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.rows = runtime_context.get_list_state(ListStateDescriptor("rows"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.rows.add(value["n"])
        yield {"n": self.rows.get()}


class ByTimer(KeyedProcessFunction):
    def __init__(self) -> None:
        self.own = Own()

    def process_element(self, value: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(value["n"])

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return self.own.listed()


class AtTheEnd(Function):
    def map(self, value: Any) -> Any:
        raise AssertionError("it has no record")

    def finish(self) -> Any:
        return Own().all_at_once()


class Two(Own):
    """The methods of functions with two inputs."""

    map1 = map2 = Own.next
    flat_map1 = process_element1 = process_element = Own.generated
    flat_map2 = process_element2 = process_broadcast_element = Own.generated_later


def add(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    one["n"] = one["n"] + 1
    return one


class Counted(AggregateFunction):
    def create_accumulator(self) -> Any:
        return {"n": 0}

    def add(self, value: Any, accumulator: Any) -> Any:
        return add(accumulator, value)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


class Reused(Source):
    """A source that fills the same dict again, in batches of a given kind."""

    def __init__(self, kind: Callable[[Iterator[Any]], Any]) -> None:
        self._kind = kind

    def batches(self, context: RuntimeContext) -> Batches:
        own = Own()
        return iter([self._kind(own.all_at_once())])


class Sized:
    def __init__(self, values: Iterator[Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(EXPECTED)

    def __iter__(self) -> Iterator[Any]:
        return self._values


OWN: dict[str, Callable[[Own], Factory]] = {
    "map": lambda own: partial(MapOperator, own.next),
    "map later": lambda own: partial(MapOperator, own.next_later),
    "map with a key": lambda own: partial(KeyedMapOperator, own.next, key_of),
    "flat_map of lists": lambda own: partial(FlatMapOperator, own.listed),
    "flat_map of generators": lambda own: partial(FlatMapOperator, own.generated),
    "flat_map of lists, later": lambda own: partial(FlatMapOperator, own.listed_later),
    "flat_map of generators, later": lambda own: partial(FlatMapOperator, own.generated_later),
    "flat_map with a key": lambda own: partial(KeyedFlatMapOperator, own.listed, key_of),
    "process": lambda own: partial(ProcessOperator, own.generated),
    "process later": lambda own: partial(ProcessOperator, own.generated_later),
    "process with a key": lambda own: partial(KeyedProcessOperator, own.listed, key_of),
    "map_batch": lambda own: partial(MapBatchOperator, own.all_at_once),
    "map_batch later": lambda own: partial(MapBatchOperator, own.all_later),
    "process_batch": lambda own: partial(ProcessBatchOperator, own.all_at_once, key_of),
    "process_batch later": lambda own: partial(ProcessBatchOperator, own.all_later, key_of),
}
"""Operators with functions that emit their own object. They work with timestamps, too."""

OTHERS: dict[str, Factory] = {
    "filter": partial(FilterOperator, Keeping().take),
    "filter later": partial(FilterOperator, Keeping().take_later),
    "filter with a key": partial(KeyedFilterOperator, Keeping().take, key_of),
    "map of its argument": partial(MapOperator, Keeping().take),
    "process, value in state": partial(KeyedProcessOperator, InState(), key_of),
    "on_timer": partial(KeyedProcessOperator, ByTimer(), key_of),
    "reduce": partial(ReduceOperator, add, key_of),
}


def spoil(consumer: int, row_of: Callable[[Any], Any], record: Any) -> None:
    SEEN[consumer].append(deepcopy(record))
    row_of(record)["n"] = "spoilt"


async def check(
    factory: Factory,
    arrangement: str,
    fed: Callable[[OperatorChain], Any],
    *,
    row_of: Callable[[Any], Any] = plain,
    expected: list[Any] = EXPECTED,
    stamped: bool = False,
) -> None:
    """Check that each consumer of an operator gets the emitted values, though others change the
    object."""
    SEEN[:] = [[], []]
    consumers = {"written": 0, "chained": 1, "all": 2}[arrangement]
    of_input = InputType(None, stamped)
    tested = ChainedOperator("tested", "tested", factory, None, stamped=stamped)
    operators = [tested if fed is read else replace(tested, input_types=(of_input, of_input))]
    for name in range(consumers):
        taking = partial(MapOperator, partial(spoil, name, row_of))
        named = f"taking {name}"
        operators.append(ChainedOperator(named, named, taking, 0, stamped=stamped))
    arranged = Arranged(segment_bytes=1024)
    outputs = {}
    if arrangement != "chained":
        outputs[0] = [RecordWriterOutput(arranged.writer, "FORWARD", "tested")]
    vertex = JobVertex(0, "v", 1, 128, "default", tuple(operators))
    place = context(channels_of_first_input=1, processing_time=ManualTime())
    chain = OperatorChain(vertex, place, outputs)
    await chain.open()
    await fed(chain)
    await chain.end_of_input()
    await chain.close()
    arranged.writer.flush()
    written = [one for one in arranged.take() if type(one) is not DataType]
    if stamped:
        written = [value for _, value in written]
    arranged.close()
    wanted = [expected if number < consumers else [] for number in range(2)]
    wanted.append(expected if outputs else [])
    assert [[row_of(one) for one in consumer] for consumer in (*SEEN, written)] == wanted


async def records(chain: OperatorChain) -> None:
    await chain.head.process([{"n": 1}, {"n": 2}, {"n": 3}])
    await chain.head.process_event_time(Watermark(10))


async def one_record(chain: OperatorChain) -> None:
    await chain.head.process([{"n": 0}])


async def stamped_records(chain: OperatorChain) -> None:
    await chain.head.process([(n, {"n": n}) for n in (1, 2, 3)])
    await chain.head.process_event_time(Watermark(10))


async def one_stamped_record(chain: OperatorChain) -> None:
    await chain.head.process([(1, {"n": 0})])


async def nothing(chain: OperatorChain) -> None:
    """Process no record."""


async def read(chain: OperatorChain) -> None:
    assert isinstance(chain.head, SourceOperator)
    await chain.head.run(*mails_and_slices())


@pytest.fixture(params=["written", "chained", "all"])
def arrangement(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize("name", OWN)
async def test_a_function_with_its_own_object(name: str, stamped: bool, arrangement: str) -> None:
    factory = OWN[name](Own())
    gets_one = "batch" in name
    fed = {
        (False, False): records,
        (False, True): one_record,
        (True, False): stamped_records,
        (True, True): one_stamped_record,
    }[stamped, gets_one]
    await check(factory, arrangement, fed, stamped=stamped)


@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize("name", OTHERS)
async def test_records_that_functions_retain(name: str, stamped: bool, arrangement: str) -> None:
    factory = deepcopy(OTHERS[name])
    fed = stamped_records if stamped else records
    await check(factory, arrangement, fed, stamped=stamped)


TWO_INPUTS: dict[str, Callable[..., Operator]] = {
    "map": partial(CoMapOperator, Two()),
    "flat_map": partial(CoFlatMapOperator, Two()),
    "process": partial(CoProcessOperator, Two()),
    "broadcast": partial(BroadcastProcessOperator, Two(), (None, None), ()),
}


@pytest.mark.parametrize("stamped", [False, True])
@pytest.mark.parametrize("name", TWO_INPUTS)
async def test_two_inputs(name: str, stamped: bool, arrangement: str) -> None:
    async def fed(chain: OperatorChain) -> None:
        for channel in (0, 1, 0):
            chain.set_channel(channel)
            await chain.head.process([(1, "a") if stamped else "a"])

    factory = deepcopy(TWO_INPUTS[name])
    await check(factory, arrangement, fed, stamped=stamped)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("in_thread", [False, True])
async def test_requests(ordered: bool, in_thread: bool, arrangement: str) -> None:
    own = Own()
    factory = partial(
        AsyncWaitOperator,
        own.listed if in_thread else own.listed_later,
        0,
        1 if in_thread else 10,
        NO_RETRY_STRATEGY,
        ordered=ordered,
        in_thread=in_thread,
    )
    await check(factory, arrangement, records)


SOURCES: dict[str, Source] = {
    "a batch that makes its records": Reused(Sized),
    "numbered": GeneratorSource(Own().next, 3),
    "with a rate": RateLimitedSource(Reused(Sized), 1e9),
    "stamped": RateLimitedSource(GeneratorSource(int, 3), 1e9, stamp=Own().next),
}


@pytest.mark.parametrize("name", SOURCES)
async def test_sources(name: str, arrangement: str) -> None:
    factory = partial(SourceOperator, deepcopy(SOURCES[name]))
    await check(factory, arrangement, read)


async def test_a_list_with_one_object_in_it_twice(arrangement: str) -> None:
    """A consumer that changes one of them does not change the other."""
    row = {"n": 7}
    factory = partial(MapBatchOperator, lambda values: [row] * 3)
    await check(factory, arrangement, one_record, expected=[{"n": 7}] * 3)
    assert row == {"n": 7}


@pytest.mark.parametrize("stamped", [False, True])
async def test_an_accumulator_that_is_its_own_result(stamped: bool, arrangement: str) -> None:
    factory: Factory = partial(AggregateOperator, Counted(), key_of)
    fed = stamped_records if stamped else records
    await check(factory, arrangement, fed, row_of=second, stamped=stamped)


@pytest.mark.parametrize("emit", ["every_record", "end_of_input"])
async def test_consumers_that_change_what_a_fold_emits_do_not_change_its_state(emit: Any) -> None:
    expected = EXPECTED if emit == "every_record" else EXPECTED[-1:]
    factory = partial(ReduceOperator, add, key_of, emit)
    await check(factory, "chained", records, expected=expected)


async def test_the_end_of_a_function(arrangement: str) -> None:
    await check(partial(MapOperator, AtTheEnd()), arrangement, nothing)


def with_list(record: Any) -> Any:
    if isinstance(record["n"], tuple):  # a list arrives as a tuple
        record["n"] = list(record["n"])
    return record


async def test_a_list_in_state(arrangement: str) -> None:
    lists = [{"n": list(range(1, n + 1))} for n in (1, 2, 3)]
    factory = partial(KeyedProcessOperator, ListInState(), key_of)
    await check(factory, arrangement, records, row_of=with_list, expected=lists)


def windows(
    assigner: WindowAssigner,
    contents: WindowContents,
    function: Any = None,
    trigger: Trigger | None = None,
) -> WindowOperator:
    trigger = trigger or assigner.get_default_trigger()
    return WindowOperator(assigner, trigger, contents, function, "apply", key_of, keyed=False)


def changing(window: Any, elements: list[Any]) -> Iterator[Any]:
    """Add the elements up into the first of them."""
    for other in elements[1:]:
        elements[0]["n"] += other["n"]
    yield elements[0]


def added(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    one["n"] += other["n"]
    return one


WINDOWS: dict[str, tuple[Callable[[], WindowContents], Any]] = {
    "elements": (ElementContents, changing),
    "reduce": (partial(ReducedContents, added), None),
    "reduce and apply": (partial(ReducedContents, added), changing),
}


@pytest.mark.parametrize("name", WINDOWS)
async def test_windows_that_share_records(name: str, arrangement: str) -> None:
    contents, function = WINDOWS[name]
    assigner = SlidingEventTimeWindows(Time.milliseconds(2), Time.milliseconds(1))
    expected = [{"n": 1}, {"n": 3}, {"n": 5}, {"n": 3}]
    factory = partial(windows, assigner, contents(), function)
    await check(factory, arrangement, stamped_records, expected=expected, stamped=True)


async def test_a_window_that_speaks_again(arrangement: str) -> None:
    """Its accumulator has changed since it fired first."""
    assigner = TumblingEventTimeWindows(Time.milliseconds(10))
    contents = AggregatedContents(Counted(), merges=False)

    factory = partial(windows, assigner, contents, trigger=CountTrigger.of(1))
    await check(factory, arrangement, stamped_records, stamped=True)


class OwnEnd(BaseException):
    """An exception that user code may define."""


ENDS: dict[str, Callable[[], BaseException]] = {
    "SystemExit": partial(SystemExit, 3),
    "KeyboardInterrupt": partial(KeyboardInterrupt, 3),
    "OwnEnd": partial(OwnEnd, 3),
    "CancelledError": partial(asyncio.CancelledError, 3),
}


class Raising(Two):
    """Raises the error wherever it is called."""

    def __init__(self, error: Callable[[], BaseException]) -> None:
        super().__init__()
        self._error = error

    def next(self, *_: Any) -> dict[str, int]:
        raise self._error()

    map1 = map2 = next


async def failing(
    operator: Operator, value: Any = None, *, stamped: bool = False, **settings: Any
) -> str:
    """Feed an operator a record, and return the error of its chain."""
    of_input = InputType(None, stamped)
    one = ChainedOperator("tested", "tested", partial(deepcopy, operator), None, stamped=stamped)
    one = replace(one, input_types=(of_input, of_input))
    clock = ManualTime()
    place = context(channels_of_first_input=1, processing_time=clock, **settings)
    chain = OperatorChain(JobVertex(0, "v", 1, 128, "default", (one,)), place, {})
    await chain.open()
    with pytest.raises(JobFailedError) as raised:
        await chain.head.process([value or {"n": 0}])
        await chain.head.process_event_time(Watermark(10_000))
        await chain.end_of_input()
    await chain.close(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", [*OWN, *TWO_INPUTS])
async def test_a_raised_base_exception_names_operator_and_record(name: str, end: str) -> None:
    function = Raising(ENDS[end])
    if name in OWN:
        operator = OWN[name](function)()
    else:
        kind = TWO_INPUTS[name]
        assert isinstance(kind, partial)
        operator = kind.func(function, *kind.args[1:])
    said = await failing(operator)
    assert said.startswith('operator "tested" (1/1) failed on a record of type dict, {')
    assert said.endswith(f": {end}: 3")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_request_that_raises_no_exception_names_its_record(
    end: str, in_thread: bool
) -> None:
    """The event loop goes on, although a SystemExit of a task would end it."""
    function = Raising(ENDS[end])
    call = function.listed if in_thread else function.listed_later
    operator = AsyncWaitOperator(call, 0, 1, NO_RETRY_STRATEGY, ordered=True, in_thread=in_thread)
    said = await failing(operator)
    assert said.startswith('operator "tested"')
    assert " failed on a record of type dict, {'n': 0}: " in said
    assert end in said or "its request was cancelled" in said


@pytest.mark.parametrize("end", ENDS)
async def test_a_window_that_raises_no_exception_names_its_key(end: str) -> None:
    def process(key: Any, place: Any, elements: Any) -> Any:
        error = ENDS[end]()
        raise error

    assigner = TumblingEventTimeWindows.of(Time.seconds(1))
    operator = WindowOperator(
        assigner,
        assigner.get_default_trigger(),
        ElementContents(),
        process,
        "process",
        key_of,
    )
    said = await failing(operator, (1, {"n": 0}), stamped=True)
    assert said.startswith('operator "tested" (1/1) failed on window ')
    assert said.endswith(f" of the key 0: {end}: 3")


@pytest.mark.parametrize("end", ENDS)
async def test_a_source_that_raises_no_exception_says_where(end: str) -> None:
    source = GeneratorSource(Raising(ENDS[end]).next, 3)
    one = ChainedOperator("tested", "tested", partial(SourceOperator, source), None)
    chain = OperatorChain(JobVertex(0, "v", 1, 128, "default", (one,)), context(), {})
    await chain.open()
    with pytest.raises(JobFailedError, match=rf'"tested" \(1/1\) failed after 0 records: {end}: 3'):
        await read(chain)
    await chain.close()
