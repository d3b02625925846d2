"""A plain interpreter of programs: each step maps lists of records to a list.

A stream is a list of pairs of a timestamp, or None, and a record. Its order is one of the possible
orders of the job, and the job's own where the step determines it (``Order``). The interpreter has
no subtasks; it only knows that a broadcast exchange multiplies records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from tests.fuzz.jobs.meaning import Meaning, Mode, following
from tests.fuzz.jobs.program import Input, Program, Step
from tests.fuzz.jobs.user_functions import SIDE_MODULUS
from tests.fuzz.jobs.values import fresh, make, model_key, parts, shape_of

__all__ = ["SINKS", "interpret", "time_of"]

Stamped = tuple[int | None, Any]
Stream = list[Stamped]

SINKS = ("collect", "iterator", "text files", "json files", "function")
"""Kinds of steps that are sinks."""

STEP_MS = 10
"""Event time between two records of a source."""


def time_of(number: int, jitter_ms: int) -> int:
    """Return the event time of a source's record."""
    return number * STEP_MS + (number * 13 % jitter_ms if jitter_ms else 0)


def interpret(program: Program) -> dict[int, list[Any]]:
    """Return the records of each sink, by number of step."""
    run = _Interpreter(program)
    for step in program.steps:
        run.take(step)
    return run.outputs


class _Interpreter:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._meaning = Meaning(program.keys)
        self._streams: dict[tuple[int, bool], Stream] = {}
        self.outputs: dict[int, list[Any]] = {}

    def take(self, step: Step) -> None:
        """Interpret a step after its inputs."""
        inputs = [self._read(one, step.parallelism) for one in step.inputs]
        if step.kind in SINKS:
            self.outputs[step.number] = [
                fresh(record) for _, record in list(chain.from_iterable(inputs))
            ]
            return
        if step.kind in _SOURCES:
            results = self._source(step)
        else:
            interpret_kind: Callable[..., Stream] = getattr(self, f"_{step.kind}")
            results = (
                interpret_kind(step, *inputs)
                if step.kind in _TWO
                else interpret_kind(step, list(chain.from_iterable(inputs)))
            )
        if step.options.get("sides", "none") == "none":
            self._streams[step.number, False] = results
            return
        for side in (False, True):
            self._streams[step.number, side] = [
                one for one in results if (parts(one[1])[1] % SIDE_MODULUS == 0) == side
            ]

    def _read(self, one: Input, parallelism: int) -> Stream:
        stream = self._streams[one.step, one.side]
        if one.exchange == "broadcast":
            return [stamped for stamped in stream for _ in range(parallelism)]
        return stream

    def _source(self, step: Step) -> Stream:
        options = step.options
        jitter = options.get("jitter_ms")
        return [
            (
                None if jitter is None else time_of(number, jitter),
                self._meaning.source_record(number, options["shape"], options["payloads"]),
            )
            for number in range(options["count"])
        ]

    # -- operators without a key ------------------------------------------------------------------

    def _map(self, step: Step, stream: Stream) -> Stream:
        change = step.options["change"]
        return [(stamp, self._meaning.changed(change, record)) for stamp, record in stream]

    _map_batch = _map

    def _project(self, step: Step, stream: Stream) -> Stream:
        return list(stream)

    def _assign(self, step: Step, stream: Stream) -> Stream:
        return [(parts(record)[1] * STEP_MS, record) for _, record in stream]

    def _flat_map(self, step: Step, stream: Stream) -> Stream:
        change, most = step.options["change"], step.options["most"]
        return [
            (stamp, one)
            for stamp, record in stream
            for one in self._meaning.expanded(change, most, record)
        ]

    _process = _async = _flat_map

    def _filter(self, step: Step, stream: Stream) -> Stream:
        modulus = step.options["modulus"]
        return [one for one in stream if self._meaning.kept(modulus, one[1])]

    # -- on keyed streams -------------------------------------------------------------------------

    def _count(self, step: Step, stream: Stream) -> Stream:
        results = self._folded(step.options["mode"], step.options["shape"], stream)
        if step.form == "filter":
            return [
                one
                for one, (_, counted) in zip(stream, results, strict=True)
                if parts(counted)[1] % 3
            ]
        return results

    def _folded(self, mode: Mode, shape: str, stream: Stream) -> Stream:
        folds: dict[Any, int] = {}
        results: Stream = []
        for stamp, record in stream:
            k, n, _ = parts(record)
            key = model_key(k)
            folds[key] = following(mode, folds.get(key, 0), n)
            results.append((stamp, make(shape, fresh(k), folds[key], None)))
        return results

    def _reduce(self, step: Step, stream: Stream) -> Stream:
        reduced: dict[Any, Any] = {}
        results: Stream = []
        for stamp, record in stream:
            k, n, _ = parts(record)
            key = model_key(k)
            if key in reduced:
                k, before, x = parts(reduced[key])
                n = following(step.options["mode"], before, n)
                record = make(shape_of(reduced[key]), fresh(k), n, fresh(x))
            reduced[key] = record
            results.append((stamp, record))
        return [(None, one) for one in reduced.values()] if step.options["at_end"] else results

    def _aggregate(self, step: Step, stream: Stream) -> Stream:
        results = self._folded(step.options["mode"], step.options["shape"], stream)
        if not step.options["at_end"]:
            return results
        last = {model_key(parts(record)[0]): record for _, record in results}
        return [(None, record) for record in last.values()]

    def _extreme(self, step: Step, stream: Stream) -> Stream:
        kept: dict[Any, Any] = {}
        results: Stream = []
        for stamp, record in stream:
            key = model_key(parts(record)[0])
            kept[key] = self._extreme_of(step.options["method"], kept.get(key), record)
            results.append((stamp, kept[key]))
        return results

    def _extreme_of(self, method: str, before: Any, record: Any) -> Any:
        if before is None:
            return record
        k, most, x = parts(before)
        n = parts(record)[1]
        if method == "min_by":
            return record if n < most else before
        if method == "max_by":
            return record if n > most else before
        combined = {"sum": most + n, "min": min(most, n), "max": max(most, n)}[method]
        return make(shape_of(before), k, combined, x)

    def _count_window(self, step: Step, stream: Stream) -> Stream:
        options = step.options
        size, slide = options["size"], options["slide"]
        seen: dict[Any, list[Any]] = defaultdict(list)
        results: Stream = []
        for _, record in stream:
            k, n, _ = parts(record)
            numbers = seen[model_key(k)]
            numbers.append(n)
            if len(numbers) % (slide if options["kind"] == "sliding count" else size):
                continue
            window = numbers if options["kind"] == "global" else numbers[-size:]
            results.append((None, window_result(options, k, window)))
        return results

    def _timers(self, step: Step, stream: Stream) -> Stream:
        span = step.options["span_ms"]
        counts: dict[Any, int] = defaultdict(int)
        keys: dict[Any, Any] = {}
        for stamp, record in stream:
            assert stamp is not None, "timers are on streams with timestamps"
            k = parts(record)[0]
            keys[model_key(k)] = k
            counts[model_key(k), stamp - stamp % span + span - 1] += 1
        return [
            (None, make(step.options["shape"], keys[key], count, end))
            for (key, end), count in counts.items()
        ]

    def _window(self, step: Step, stream: Stream) -> Stream:
        options = step.options
        panes: dict[Any, list[Any]] = defaultdict(list)
        keys: dict[Any, Any] = {}
        by_key: dict[Any, list[tuple[int, Any]]] = defaultdict(list)
        for stamp, record in stream:
            assert stamp is not None, "windows are on streams with timestamps"
            k = parts(record)[0] if options["keyed"] else "all"
            keys[model_key(k)] = k
            by_key[model_key(k)].append((stamp, record))
        for key, records in by_key.items():
            for start, end, inside in windows_of(options, records):
                panes[key, start, end] = inside
        return [
            (None, windowed(options, keys[key], (start, end), inside))
            for (key, start, end), inside in panes.items()
        ]

    # -- on two streams ---------------------------------------------------------------------------

    def _co_map(self, step: Step, first: Stream, second: Stream) -> Stream:
        change, other = step.options["change"], step.options["other"]
        replaced = [(stamp, self._meaning.changed(change, record)) for stamp, record in first]
        return replaced + [
            (stamp, self._meaning.changed(other, record)) for stamp, record in second
        ]

    def _co_flat_map(self, step: Step, first: Stream, second: Stream) -> Stream:
        most = step.options["most"]
        pairs = ((first, step.options["change"]), (second, step.options["other"]))
        return [
            (stamp, one)
            for stream, change in pairs
            for stamp, record in stream
            for one in self._meaning.expanded(change, most, record)
        ]

    _co_process = _co_flat_map

    def _co_count(self, step: Step, first: Stream, second: Stream) -> Stream:
        modes, shape = step.options["modes"], step.options["shape"]
        results = self._folded(modes[0], shape, first) + self._folded(modes[1], shape, second)
        totals: dict[Any, int] = defaultdict(int)
        keys: dict[Any, Any] = {}
        for _, record in (*first, *second):
            k = parts(record)[0]
            keys[model_key(k)] = k
            totals[model_key(k)] += 1
        return results + [(None, make(shape, keys[key], n, "end")) for key, n in totals.items()]

    def _rule_count(self, step: Step, stream: Stream, rules: Stream) -> Stream:
        shape = step.options["shape"]
        results = self._folded(step.options["mode"], shape, stream)
        number = len({parts(record)[1] for _, record in rules})
        keys = {model_key(parts(record)[0]): parts(record)[0] for _, record in stream}
        return results + [(None, make(shape, k, number, "rules")) for k in keys.values()]

    def _broadcast_state(self, step: Step, stream: Stream, rules: Stream) -> Stream:
        return self._map(step, stream)


_SOURCES = ("collection", "generator", "sequence", "batches")
_TWO = ("co_map", "co_flat_map", "co_process", "co_count", "rule_count", "broadcast_state")


def window_result(options: dict[str, Any], k: Any, numbers: Iterable[int]) -> Any:
    """Return the result of a count window: its count, and a fold if the order is determined."""
    fold = count = 0
    for n in numbers:
        fold = following("chain", fold, n)
        count += 1
    n = fold if options["ordered"] else count
    return make(options["shape"], fresh(k), n, count)


def windows_of(
    options: dict[str, Any], records: list[tuple[int, Any]]
) -> Iterable[tuple[int, int, list[Any]]]:
    """Return the windows of one key, each with its records."""
    if options["assigner"] == "session":
        return _sessions(options["size_ms"], records)
    size = options["size_ms"]
    slide = options["slide_ms"] if options["assigner"] == "sliding" else size
    offset = options["offset_ms"]
    panes: dict[int, list[Any]] = defaultdict(list)
    for stamp, record in records:
        number = (stamp - offset) // slide
        while number * slide + offset + size > stamp:
            panes[number * slide + offset].append(record)
            number -= 1
    return [(start, start + size, inside) for start, inside in panes.items()]


def _sessions(gap: int, records: list[tuple[int, Any]]) -> Iterable[tuple[int, int, list[Any]]]:
    sessions: list[tuple[int, int, list[Any]]] = []
    for stamp, record in sorted(records, key=lambda one: one[0]):
        if sessions and stamp <= sessions[-1][1]:
            start, _, inside = sessions[-1]
            sessions[-1] = (start, stamp + gap, [*inside, record])
        else:
            sessions.append((stamp, stamp + gap, [record]))
    return sessions


def windowed(options: dict[str, Any], k: Any, window: tuple[int, int], records: list[Any]) -> Any:
    """Return the result of an event-time window."""
    total = 0
    for record in records:
        total = following("sum", total, parts(record)[1])
    function = options["function"]
    if function == "reduce":
        first = records[0]
        return make(shape_of(first), fresh(parts(first)[0]), total, None)
    if function == "aggregate":
        return make(options["shape"], fresh(parts(records[0])[0]), total, None)
    return make(options["shape"], fresh(k), total, window)
