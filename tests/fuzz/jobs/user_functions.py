"""Stateless functions of random jobs: every kind of callable that the API takes.

Each factory returns a function with a meaning of ``meaning.py``, in the form and with the conduct
of the step.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from flinknet.datastream import (
    AsyncFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapBatchFunction,
    MapFunction,
    MapStateDescriptor,
    OutputTag,
    Partitioner,
    ProcessFunction,
    SinkFunction,
)
from tests.fuzz.jobs.conduct import Conduct
from tests.fuzz.jobs.meaning import Meaning
from tests.fuzz.jobs.values import parts, text_of_record

__all__ = [
    "SIDE",
    "SIDE_MODULUS",
    "AsyncChange",
    "BroadcastChange",
    "ChangeBatches",
    "CoExpand",
    "CoProcess",
    "CoReplace",
    "CustomPartitioner",
    "KeyOf",
    "WriteLines",
    "expanding",
    "filtering",
    "key_of",
    "mapping",
    "processing",
]

SIDE = OutputTag("side")
SIDE_MODULUS = 3
"""Results go to the side output if their ``n`` is a multiple of this."""

Replace = Callable[[Any], Any]
Expand = Callable[[Any], Iterable[Any]]


def key_of(record: Any) -> Any:
    """Return a record's key, as a plain function."""
    return parts(record)[0]


class KeyOf(KeySelector):
    """A key selector class."""

    def get_key(self, value: Any) -> Any:
        return parts(value)[0]


class CustomPartitioner(Partitioner):
    """A partitioner that sends equal keys to one subtask."""

    def __init__(self, meaning: Meaning) -> None:
        self._meaning = meaning

    def partition(self, key: Any, num_partitions: int) -> int:
        return self._meaning.custom_channel(key, num_partitions)


class _Map(MapFunction):
    def __init__(self, replace: Replace, conduct: Conduct) -> None:
        self._replace, self._conduct = replace, conduct

    def map(self, value: Any) -> Any:
        self._conduct.begin()
        return self._conduct.one(value, self._replace(value))

    def close(self) -> None:
        self._conduct.end()


def mapping(form: str, replace: Replace, conduct: Conduct) -> Any:
    """Return a map function."""
    if form == "class":
        return _Map(replace, conduct)
    one = _Map(replace, conduct).map
    if form == "function":
        return one

    async def coroutine(value: Any) -> Any:
        await asyncio.sleep(0)
        return one(value)

    return coroutine


class _FlatMap(FlatMapFunction):
    def __init__(self, expand: Expand, conduct: Conduct) -> None:
        self._expand, self._conduct = expand, conduct

    def flat_map(self, value: Any) -> Iterator[Any]:
        self._conduct.begin()
        yield from self._conduct.each(value, self._expand(value))

    def close(self) -> None:
        self._conduct.end()


def expanding(form: str, expand: Expand, conduct: Conduct) -> Any:
    """Return a flat map function."""
    if form == "class":
        return _FlatMap(expand, conduct)

    def several(value: Any) -> list[Any] | None:
        conduct.begin()
        return conduct.many(value, expand(value)) or None

    if form == "generator":

        def generator(value: Any) -> Iterator[Any]:
            conduct.begin()
            yield from conduct.each(value, expand(value))

        return generator
    if form == "tuple":
        return lambda value: tuple(several(value) or ())
    if form == "coroutine":

        async def coroutine(value: Any) -> Any:
            await asyncio.sleep(0)
            return several(value)

        return coroutine
    if form == "async generator":

        async def async_generator(value: Any) -> AsyncIterator[Any]:
            conduct.begin()
            for one in conduct.each(value, expand(value)):
                yield one

        return async_generator
    return several


def _with_sides(results: Iterable[Any]) -> Iterator[Any]:
    for one in results:
        yield (SIDE, one) if parts(one)[1] % SIDE_MODULUS == 0 else one


class _Process(ProcessFunction):
    def __init__(self, expand: Expand, conduct: Conduct, has_sides: bool) -> None:
        self._expand, self._conduct, self._has_sides = expand, conduct, has_sides

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self._conduct.begin()
        results = self._conduct.each(value, self._expand(value))
        yield from _with_sides(results) if self._has_sides else results

    def close(self) -> None:
        self._conduct.end()


def processing(form: str, expand: Expand, conduct: Conduct, *, has_sides: bool) -> Any:
    """Return a process function."""
    if form == "class":
        return _Process(expand, conduct, has_sides)

    def several(value: Any, ctx: Any) -> list[Any] | None:
        conduct.begin()
        given = conduct.many(value, expand(value))
        return (list(_with_sides(given)) if has_sides else given) or None

    if form == "coroutine":

        async def coroutine(value: Any, ctx: Any) -> Any:
            await asyncio.sleep(0)
            return several(value, ctx)

        return coroutine
    return several


class _Filter(FilterFunction):
    def __init__(self, keeps: Replace, conduct: Conduct) -> None:
        self._keeps, self._conduct = keeps, conduct

    def filter(self, value: Any) -> bool:
        self._conduct.begin()
        return bool(self._keeps(self._conduct.kept_argument(value)))

    def close(self) -> None:
        self._conduct.end()


def filtering(form: str, keeps: Replace, conduct: Conduct) -> Any:
    """Return a filter function."""
    if form == "class":
        return _Filter(keeps, conduct)
    one = _Filter(keeps, conduct).filter
    if form == "function":
        return one

    async def coroutine(value: Any) -> bool:
        await asyncio.sleep(0)
        return one(value)

    return coroutine


class ChangeBatches(MapBatchFunction):
    """A function that replaces the records of a batch; the batch itself must not be changed."""

    def __init__(self, form: str, replace: Replace, conduct: Conduct) -> None:
        self._replace, self._conduct = replace, conduct
        self._is_generator = form == "generator"

    def map_batch(self, values: list[Any]) -> Iterable[Any]:
        self._conduct.begin()
        results = map(self._replace, values)
        if self._is_generator:
            return self._conduct.each(None, results)
        return self._conduct.many(None, results)

    def close(self) -> None:
        self._conduct.end()


class AsyncChange(AsyncFunction):
    """Requests whose time depends on the record, and which fail once for some records."""

    def __init__(self, expand: Expand, conduct: Conduct, *, fails: bool) -> None:
        self._expand, self._conduct, self._fails = expand, conduct, fails
        self._failed: set[int] = set()

    async def async_invoke(self, value: Any) -> Any:
        n = parts(value)[1]
        results = list(self._expand(value))
        await asyncio.sleep(n % 3 / 1000)
        if self._fails and n % 5 == 0 and n not in self._failed:
            self._failed.add(n)
            raise ConnectionError(f"no answer for {n}")
        self._conduct.begin()
        return self._conduct.many(value, results)

    def close(self) -> None:
        self._conduct.end()


class BlockingChange(AsyncFunction):
    """The same in a thread."""

    def __init__(self, expand: Expand) -> None:
        self._expand = expand

    def async_invoke(self, value: Any) -> Any:
        time.sleep(parts(value)[1] % 2 / 10_000)
        return list(self._expand(value))


class CoReplace(CoMapFunction):
    """A function that replaces the records of two streams."""

    def __init__(self, first: Replace, second: Replace, conduct: Conduct) -> None:
        self._first, self._second, self._conduct = first, second, conduct

    def map1(self, value: Any) -> Any:
        self._conduct.begin()
        return self._conduct.one(value, self._first(value))

    def map2(self, value: Any) -> Any:
        self._conduct.begin()
        return self._conduct.one(value, self._second(value))

    def close(self) -> None:
        self._conduct.end()


class CoExpand(CoFlatMapFunction):
    """A function that replaces each record of two streams by several."""

    def __init__(self, first: Expand, second: Expand, conduct: Conduct) -> None:
        self._first, self._second, self._conduct = first, second, conduct

    def flat_map1(self, value: Any) -> Iterator[Any]:
        self._conduct.begin()
        yield from self._conduct.each(value, self._first(value))

    def flat_map2(self, value: Any) -> list[Any]:
        self._conduct.begin()
        return self._conduct.many(value, self._second(value))

    def close(self) -> None:
        self._conduct.end()


class CoProcess(CoProcessFunction):
    """The same with a side output."""

    def __init__(self, first: Expand, second: Expand, conduct: Conduct, *, has_sides: bool) -> None:
        self._first, self._second, self._conduct = first, second, conduct
        self._has_sides = has_sides

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        self._conduct.begin()
        results = self._conduct.each(value, self._first(value))
        yield from _with_sides(results) if self._has_sides else results

    def process_element2(self, value: Any, ctx: Any) -> list[Any]:
        self._conduct.begin()
        results = self._conduct.many(value, self._second(value))
        return list(_with_sides(results)) if self._has_sides else results

    def close(self) -> None:
        self._conduct.end()


class BroadcastChange(BroadcastProcessFunction):
    """A function that replaces the records of one stream, and keeps the broadcast records."""

    def __init__(self, replace: Replace, descriptor: MapStateDescriptor, conduct: Conduct) -> None:
        self._replace, self._descriptor, self._conduct = replace, descriptor, conduct

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        self._conduct.begin()
        ctx.get_broadcast_state(self._descriptor).get(parts(value)[1])
        return self._conduct.many(value, (self._replace(value),))

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(self._descriptor).put(parts(value)[1], value)

    def close(self) -> None:
        self._conduct.end()


class WriteLines(SinkFunction):
    """A sink that appends a line for each record to a file, with one write."""

    def __init__(self, path: str, conduct: Conduct) -> None:
        self._path, self._conduct = path, conduct

    def invoke(self, value: Any) -> None:
        self._conduct.begin()
        with open(self._path, "a", encoding="ascii") as file:  # noqa: PTH123 - one write
            file.write(f"{text_of_record(value)}\n")
        self._conduct.one(value, value)

    def close(self) -> None:
        self._conduct.end()
