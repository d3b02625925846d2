"""The builder: it makes a program's job with the public API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

from flinknet.datastream import (
    AsyncDataStream,
    AsyncRetryStrategy,
    CheckpointingMode,
    CollectionSource,
    CollectSink,
    ConnectedStreams,
    CountTrigger,
    DataStream,
    Duration,
    EmbeddedRocksDBStateBackend,
    EventTimeSessionWindows,
    GeneratorSource,
    GlobalWindows,
    HashMapStateBackend,
    JsonLinesSink,
    KeyedStream,
    MapStateDescriptor,
    NumberSequenceSource,
    OutputTag,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    PurgingTrigger,
    RateLimitedSource,
    RestartStrategies,
    RuntimeContext,
    SlidingEventTimeWindows,
    Source,
    StreamExecutionEnvironment,
    TextFileSink,
    Time,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
    WindowedStream,
    has_exception_predicate,
)
from tests.fuzz.jobs.conduct import Conduct
from tests.fuzz.jobs.interpreter import STEP_MS, time_of, window_result
from tests.fuzz.jobs.keyed_functions import (
    STATES,
    Accumulate,
    CoCount,
    Count,
    CountBatches,
    CountFilter,
    CountFlatMap,
    CountMap,
    KeptRecord,
    Reduce,
    RuleCount,
    Timers,
)
from tests.fuzz.jobs.meaning import Meaning, following
from tests.fuzz.jobs.program import Input, Program, Step
from tests.fuzz.jobs.user_functions import (
    SIDE,
    AsyncChange,
    BlockingChange,
    BroadcastChange,
    ChangeBatches,
    CoExpand,
    CoProcess,
    CoReplace,
    CustomPartitioner,
    KeyOf,
    WriteLines,
    expanding,
    filtering,
    key_of,
    mapping,
    processing,
)
from tests.fuzz.jobs.values import (
    CHANGEABLE_SHAPES,
    REGISTERED,
    fresh,
    make,
    parts,
    refill,
    text_of_key,
    text_of_record,
)

__all__ = ["Places", "build", "sink_name"]

LATE = OutputTag("late")


class Places:
    """The files of one run of a program, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def flag(self, step: Step) -> str:
        """Return the path of the file that marks that a step has made its trouble."""
        return str(self.directory / f"trouble-{step.number}")

    @property
    def go_on(self) -> Path:
        """The file that held sources wait for."""
        return self.directory / "go-on"

    def output(self, step: Step) -> Path:
        """Return the output path of a sink."""
        return self.directory / f"output-{step.number}"

    @property
    def checkpoints(self) -> str:
        """The directory of checkpoints and savepoints."""
        return str(self.directory / "checkpoints")


def sink_name(step: Step) -> str:
    """Return the name of a collecting sink."""
    return f"sink {step.number}"


def build(program: Program, places: Places) -> tuple[StreamExecutionEnvironment, DataStream | None]:
    """Return the environment with the program in it.

    The second value is the stream that the program itself iterates over, if there is one.
    """
    return _Builder(program, places).built()


class _LazyBatch:
    """A batch that makes its records during the iteration, so that all may be one object."""

    def __init__(self, make_record: Callable[[int], Any], numbers: range) -> None:
        self._make, self._numbers = make_record, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Any]:
        return map(self._make, self._numbers)


class HeldSource(Source):
    """A source of batches of many sizes, some empty; subtasks wait at a position for a file."""

    replayable = True
    deals_out_records = True

    def __init__(
        self,
        make_record: Callable[[int], Any],
        count: int,
        hold_at: int | None,
        go_on: Path,
        *,
        is_lazy: bool,
    ) -> None:
        self._make, self._count, self._hold_at, self._go_on = make_record, count, hold_at, go_on
        self._is_lazy = is_lazy

    def batches(self, context: RuntimeContext) -> AsyncIterator[Any]:
        return self.batches_after(context, 0)

    async def batches_after(self, context: RuntimeContext, position: int) -> AsyncIterator[Any]:
        numbers = range(self._count)[context.index :: context.parallelism]
        while position < len(numbers):
            hold = self._hold_at is not None and numbers[position] >= self._hold_at
            if hold:
                await self._wait(context)
            size = 1 + position * 7 % 5
            batch = numbers[position : position + size]
            if not hold and self._hold_at is not None:
                batch = range(batch.start, min(batch.stop, self._hold_at), batch.step)
            if not position % 3:
                yield []
            records = _LazyBatch(self._make, batch)
            yield records if self._is_lazy else list(records)
            position += len(batch)
            await asyncio.sleep(0)
        if self._hold_at is not None:
            await self._wait(context)

    async def _wait(self, context: RuntimeContext) -> None:
        while not self._go_on.exists():
            with context.idle():
                await asyncio.sleep(0.005)


class _Generated:
    """A factory of a source's records; a rude one reuses one object."""

    def __init__(self, meaning: Meaning, step: Step) -> None:
        self._meaning, self._shape = meaning, step.options["shape"]
        self._payloads = step.options["payloads"]
        self._reuses = step.manner != "polite" and self._shape in CHANGEABLE_SHAPES
        self._record: Any = None

    def __call__(self, number: int) -> Any:
        made = self._meaning.source_record(number, self._shape, self._payloads)
        if not self._reuses:
            return made
        if self._record is None:
            self._record = made
        else:
            refill(self._record, *parts(made))
        return self._record


class _Stamps:
    """A timestamp assigner by a record's number, which is still its ``n`` (``time_of``)."""

    def __init__(self, jitter_ms: int) -> None:
        self._jitter_ms = jitter_ms

    def __call__(self, record: Any, before: int | None) -> int:
        return time_of(parts(record)[1], self._jitter_ms)


class _Builder:
    def __init__(self, program: Program, places: Places) -> None:
        self._program, self._places = program, places
        self._meaning = Meaning(program.keys)
        self._streams: dict[tuple[int, bool], DataStream] = {}
        self._environment = StreamExecutionEnvironment()
        self._collected: DataStream | None = None

    def built(self) -> tuple[StreamExecutionEnvironment, DataStream | None]:
        """Build the settings and every step."""
        self._set()
        for step in self._program.steps:
            build: Callable[[Step], Any] = getattr(self, f"_{step.kind.replace(' ', '_')}")
            stream = build(step)
            if stream is not None:
                self._set_of(step, stream)
        return self._environment, self._collected

    # -- settings ---------------------------------------------------------------------------------

    def _set(self) -> None:
        environment, settings = self._environment, self._program.settings
        environment.register_type(*REGISTERED)
        config, checkpoints = environment.get_config(), environment.get_checkpoint_config()
        if "object_reuse" in settings:
            config.enable_object_reuse()
        if "chaining" in settings:
            environment.disable_operator_chaining()
        if "buffer_timeout" in settings:
            environment.set_buffer_timeout(settings["buffer_timeout"])
        rocksdb = settings.get("state_backend") == "rocksdb"
        environment.set_state_backend(
            EmbeddedRocksDBStateBackend() if rocksdb else HashMapStateBackend()
        )
        if "watermark_interval" in settings:
            config.set_auto_watermark_interval(settings["watermark_interval"])
        if "latency_interval" in settings:
            config.set_latency_tracking_interval(settings["latency_interval"])
        if "max_parallelism" in settings:
            environment.set_max_parallelism(settings["max_parallelism"])
        checkpoints.set_checkpoint_storage_dir(self._places.checkpoints)
        if "checkpoints" in settings:
            environment.enable_checkpointing(settings["checkpoints"])
            checkpoints.enable_unaligned_checkpoints("unaligned" in settings)
            if "aligned_timeout" in settings:
                checkpoints.set_aligned_checkpoint_timeout(settings["aligned_timeout"])
            if settings.get("mode") == "at least once":
                checkpoints.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
        if "restarts" in settings:
            environment.set_restart_strategy(
                RestartStrategies.fixed_delay_restart(settings["restarts"], 1)
            )
        else:
            environment.set_restart_strategy(RestartStrategies.no_restart())

    def _set_of(self, step: Step, stream: Any) -> None:
        stream.uid(f"s{step.number}").set_parallelism(step.parallelism)
        settings = step.settings
        if "chain" in settings:
            getattr(stream, settings["chain"])()
        if "slot_sharing_group" in settings:
            stream.slot_sharing_group(settings["slot_sharing_group"])
        if "buffer_timeout" in settings:
            stream.set_buffer_timeout(settings["buffer_timeout"])
        if isinstance(stream, DataStream):
            self._streams[step.number, False] = stream
            if step.options.get("sides") == "read":
                self._streams[step.number, True] = stream.get_side_output(SIDE)

    def _conduct(self, step: Step) -> Conduct:
        return Conduct(step.manner, step.trouble, self._places.flag(step))

    # -- inputs -----------------------------------------------------------------------------------

    def _plain(self, one: Input) -> DataStream:
        return self._streams[one.step, one.side]

    def _read(self, step: Step, index: int = 0) -> DataStream:
        one = step.inputs[index]
        stream = self._plain(one)
        match one.exchange:
            case "default":
                return stream
            case "key_by":
                return self._keyed(step, index)
            case "partition_custom":
                if step.number % 2:
                    return stream.partition_custom(CustomPartitioner(self._meaning), KeyOf())
                return stream.partition_custom(self._meaning.custom_channel, key_of)
            case "adaptive rebalance":
                return stream.rebalance(adaptive=True)
            case "adaptive rescale":
                return stream.rescale(adaptive=True)
            case exchange:
                exchanged: DataStream = getattr(stream, exchange)()
                return exchanged

    def _keyed(self, step: Step, index: int = 0) -> KeyedStream:
        stream = self._plain(step.inputs[index])
        match step.options.get("key"):
            case "class":
                return stream.key_by(KeyOf())
            case "hash":
                return stream.key_by(lambda record: hash(parts(record)[0]))
            case _:
                return stream.key_by(key_of)

    def _all(self, step: Step) -> DataStream:
        first, *others = [self._read(step, index) for index in range(len(step.inputs))]
        return first.union(*others) if others else first

    # -- sources ----------------------------------------------------------------------------------

    def _source(self, step: Step, source: Source) -> DataStream:
        if "records_per_s" in step.options:
            source = RateLimitedSource(source, step.options["records_per_s"])
        stream = self._environment.from_source(source).uid(f"s{step.number}-source")
        stream.set_parallelism(step.parallelism)
        if step.kind == "sequence":
            stream = stream.map(self._made(step)).uid(f"s{step.number}-made")
            stream.set_parallelism(step.parallelism)
        jitter_ms = step.options.get("jitter_ms")
        if jitter_ms is None:
            return stream
        strategy = (
            WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(jitter_ms))
            if jitter_ms
            else WatermarkStrategy.for_monotonous_timestamps()
        )
        return stream.assign_timestamps_and_watermarks(
            strategy.with_timestamp_assigner(_Stamps(jitter_ms))
        )

    def _made(self, step: Step) -> Callable[[int], Any]:
        return _Generated(self._meaning, step)

    def _collection(self, step: Step) -> DataStream:
        made = self._made(step)
        return self._source(step, CollectionSource(map(made, range(step.options["count"]))))

    def _generator(self, step: Step) -> DataStream:
        return self._source(step, GeneratorSource(self._made(step), step.options["count"]))

    def _sequence(self, step: Step) -> DataStream:
        return self._source(step, NumberSequenceSource(0, step.options["count"] - 1))

    def _batches(self, step: Step) -> DataStream:
        count, hold_at = step.options["count"], step.options.get("hold_at")
        made = self._made(step)
        source = HeldSource(
            made, count, hold_at, self._places.go_on, is_lazy=step.manner != "polite"
        )
        return self._source(step, source)

    # -- operators without a key ------------------------------------------------------------------

    def _map(self, step: Step) -> DataStream:
        change = step.options["change"]
        function = mapping(step.form, _Replacing(self._meaning, change), self._conduct(step))
        kind = None
        if step.options.get("declared"):
            types = [Types.STRING(), Types.LONG(), Types.PICKLED_BYTE_ARRAY()]
            is_row = change.shape == "row"
            kind = Types.ROW_NAMED(["k", "n", "x"], types) if is_row else Types.TUPLE(types)
        return self._all(step).map(function, kind)

    def _map_batch(self, step: Step) -> DataStream:
        replace = _Replacing(self._meaning, step.options["change"])
        function = ChangeBatches(step.form, replace, self._conduct(step))
        return self._all(step).map_batch(function)

    def _project(self, step: Step) -> DataStream:
        return self._all(step).project(0, 1, 2)

    def _assign(self, step: Step) -> DataStream:
        strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_days(1))
        return self._all(step).assign_timestamps_and_watermarks(
            strategy.with_timestamp_assigner(lambda record, before: parts(record)[1] * STEP_MS)
        )

    def _expand(self, step: Step, change: str = "change") -> _Expanding:
        return _Expanding(self._meaning, step.options[change], step.options["most"])

    def _flat_map(self, step: Step) -> DataStream:
        function = expanding(step.form, self._expand(step), self._conduct(step))
        return self._all(step).flat_map(function)

    def _process(self, step: Step) -> DataStream:
        has_sides = step.options["sides"] != "none"
        function = processing(
            step.form, self._expand(step), self._conduct(step), has_sides=has_sides
        )
        return self._all(step).process(function)

    def _filter(self, step: Step) -> DataStream:
        keeps = _Keeping(self._meaning, step.options["modulus"])
        return self._all(step).filter(filtering(step.form, keeps, self._conduct(step)))

    def _async(self, step: Step) -> DataStream:
        options = step.options
        stream, timeout = self._all(step), Time.seconds(options["timeout_s"])
        expand, retry = self._expand(step), options.get("retry")
        function: Any = AsyncChange(expand, self._conduct(step), fails=retry is not None)
        if step.form == "coroutine":
            function = function.async_invoke
        in_thread = step.form == "thread"
        if in_thread:
            function = BlockingChange(expand)
        if retry is None:
            wait = (
                AsyncDataStream.ordered_wait
                if options["ordered"]
                else AsyncDataStream.unordered_wait
            )
            return wait(stream, function, timeout, options["capacity"], in_thread=in_thread)
        strategy = (
            AsyncRetryStrategy.fixed_delay(3, 1, None, has_exception_predicate)
            if retry == "fixed"
            else AsyncRetryStrategy.exponential_backoff(3, 1, 4, 2.0, None, has_exception_predicate)
        )
        wait_with_retry = (
            AsyncDataStream.ordered_wait_with_retry
            if options["ordered"]
            else AsyncDataStream.unordered_wait_with_retry
        )
        return wait_with_retry(stream, function, timeout, strategy, options["capacity"])

    # -- on keyed streams -------------------------------------------------------------------------

    def _kept(self, step: Step, mode: Any) -> KeptRecord:
        options = step.options
        silent = Conduct("polite", None, "")
        return STATES[options["state"]](mode, options["shape"], silent, has_ttl=options["ttl"])

    def _count(self, step: Step) -> DataStream:
        kept = self._kept(step, step.options["mode"])
        arguments: dict[str, Any] = {
            "kept": kept,
            "conduct": self._conduct(step),
            "is_rude": step.manner != "polite",
        }
        stream = self._keyed(step)
        match step.form:
            case "process":
                return stream.process(Count(**arguments))
            case "map":
                return stream.map(CountMap(**arguments))
            case "flat map":
                return stream.flat_map(CountFlatMap(**arguments))
            case "filter":
                return stream.filter(CountFilter(**arguments))
            case _:
                return stream.process_batch(CountBatches(**arguments))

    def _reduce(self, step: Step) -> DataStream:
        is_rude = step.manner != "polite"
        function = Reduce(step.options["mode"], self._conduct(step), is_rude=is_rude)
        emit: Any = "end_of_input" if step.options["at_end"] else "every_record"
        return self._keyed(step).reduce(function, emit=emit)

    def _accumulate(self, step: Step, mode: Any) -> Accumulate:
        is_rude = step.manner != "polite"
        return Accumulate(mode, step.options["shape"], self._conduct(step), is_rude=is_rude)

    def _aggregate(self, step: Step) -> DataStream:
        emit: Any = "end_of_input" if step.options["at_end"] else "every_record"
        function = self._accumulate(step, step.options["mode"])
        results = self._keyed(step).aggregate(function, emit=emit).uid(f"s{step.number}-folded")
        results.set_parallelism(step.parallelism)
        return results.map(_result_of_key)

    def _extreme(self, step: Step) -> DataStream:
        method: Callable[[Any], DataStream] = getattr(self._keyed(step), step.options["method"])
        return method(step.options["field"])

    def _count_window(self, step: Step) -> DataStream:
        options, stream = step.options, self._keyed(step)
        size = options["size"]
        windows: WindowedStream
        match options["kind"]:
            case "count":
                windows = stream.count_window(size)
            case "sliding count":
                windows = stream.count_window(size, options["slide"])
            case "global":
                windows = stream.window(GlobalWindows.create()).trigger(CountTrigger.of(size))
            case _:
                trigger = PurgingTrigger.of(CountTrigger.of(size))
                windows = stream.window(GlobalWindows.create()).trigger(trigger)
        return windows.process(_CountWindow(options, self._conduct(step)))

    # -- on streams with timestamps ---------------------------------------------------------------

    def _timers(self, step: Step) -> DataStream:
        options = step.options
        function = Timers(options["shape"], options["span_ms"], self._conduct(step))
        return self._keyed(step).process(function)

    def _window(self, step: Step) -> DataStream:
        options = step.options
        size, offset = (
            Time.milliseconds(options["size_ms"]),
            Time.milliseconds(options["offset_ms"]),
        )
        assigner: Any
        match options["assigner"]:
            case "tumbling":
                assigner = TumblingEventTimeWindows.of(size, offset)
            case "sliding":
                slide = Time.milliseconds(options["slide_ms"])
                assigner = SlidingEventTimeWindows.of(size, slide, offset)
            case _:
                assigner = EventTimeSessionWindows.with_gap(size)
        windows: Any
        if options["keyed"]:
            windows = self._keyed(step).window(assigner)
        else:
            windows = self._all(step).window_all(assigner)
        windows.allowed_lateness(options["lateness_ms"])
        if options["late"]:
            windows.side_output_late_data(LATE)
        stream: DataStream = self._windowed(step, windows)
        if options["late"]:
            late = stream.get_side_output(LATE).sink_to(CollectSink())
            late.name(f"late {step.number}").set_parallelism(1)
        return stream

    def _windowed(self, step: Step, windows: Any) -> Any:
        function = step.options["function"]
        conduct = self._conduct(step)
        whole: Any = _WholeWindow(step.options, conduct)
        if not step.options["keyed"]:
            whole = _WholeAllWindow(step.options, conduct)
        match function:
            case "reduce":
                is_rude = step.manner != "polite"
                return windows.reduce(Reduce("sum", conduct, is_rude=is_rude))
            case "aggregate":
                return windows.aggregate(self._accumulate(step, "sum"))
            case "aggregate and process":
                return windows.aggregate(self._accumulate(step, "sum"), whole)
            case "process":
                return windows.process(whole)
            case _:
                applied = whole.applied if step.options["keyed"] else whole.applied_to_all
                return windows.apply(applied)

    # -- on two streams ---------------------------------------------------------------------------

    def _connected(self, step: Step) -> ConnectedStreams:
        return self._read(step).connect(self._read(step, 1))

    def _co_map(self, step: Step) -> DataStream:
        first = _Replacing(self._meaning, step.options["change"])
        second = _Replacing(self._meaning, step.options["other"])
        return self._connected(step).map(CoReplace(first, second, self._conduct(step)))

    def _co_flat_map(self, step: Step) -> DataStream:
        first, second = self._expand(step), self._expand(step, "other")
        return self._connected(step).flat_map(CoExpand(first, second, self._conduct(step)))

    def _co_process(self, step: Step) -> DataStream:
        first, second = self._expand(step), self._expand(step, "other")
        has_sides = step.options["sides"] != "none"
        function = CoProcess(first, second, self._conduct(step), has_sides=has_sides)
        return self._connected(step).process(function)

    def _co_count(self, step: Step) -> DataStream:
        first, second = (self._kept(step, mode) for mode in step.options["modes"])
        function = CoCount(
            first,
            second,
            self._conduct(step),
            is_rude=step.manner != "polite",
            has_sides=step.options["sides"] != "none",
        )
        return self._keyed(step).connect(self._keyed(step, 1)).process(function)

    def _rule_count(self, step: Step) -> DataStream:
        rules = MapStateDescriptor("rules")
        function = RuleCount(
            self._kept(step, step.options["mode"]),
            rules,
            self._conduct(step),
            is_rude=step.manner != "polite",
        )
        broadcast = self._plain(step.inputs[1]).broadcast(rules)
        return self._keyed(step).connect(broadcast).process(function)

    def _broadcast_state(self, step: Step) -> DataStream:
        rules = MapStateDescriptor("rules")
        replace = _Replacing(self._meaning, step.options["change"])
        function = BroadcastChange(replace, rules, self._conduct(step))
        broadcast = self._plain(step.inputs[1]).broadcast(rules)
        return self._read(step).connect(broadcast).process(function)

    # -- sinks ------------------------------------------------------------------------------------

    def _collect(self, step: Step) -> Any:
        return self._all(step).sink_to(CollectSink()).name(sink_name(step))

    def _iterator(self, step: Step) -> None:
        self._collected = self._all(step)

    def _text_files(self, step: Step) -> Any:
        texts = self._texts(step)
        return texts.sink_to(TextFileSink(str(self._places.output(step))))

    def _json_files(self, step: Step) -> Any:
        texts = self._texts(step).map(lambda text: {"record": text}).uid(f"s{step.number}-json")
        return texts.sink_to(JsonLinesSink(str(self._places.output(step))))

    def _texts(self, step: Step) -> DataStream:
        return self._all(step).map(text_of_record).uid(f"s{step.number}-text")

    def _function(self, step: Step) -> Any:
        function = WriteLines(str(self._places.output(step)), self._conduct(step))
        return self._all(step).sink_to(function)


class _Replacing:
    def __init__(self, meaning: Meaning, change: Any) -> None:
        self._meaning, self._change = meaning, change

    def __call__(self, record: Any) -> Any:
        return self._meaning.changed(self._change, record)


class _Expanding:
    def __init__(self, meaning: Meaning, change: Any, most: int) -> None:
        self._meaning, self._change, self._most = meaning, change, most

    def __call__(self, record: Any) -> Iterator[Any]:
        return self._meaning.expanded(self._change, self._most, record)


class _Keeping:
    def __init__(self, meaning: Meaning, modulus: int) -> None:
        self._meaning, self._modulus = meaning, modulus

    def __call__(self, record: Any) -> bool:
        return self._meaning.kept(self._modulus, record)


def _result_of_key(result: tuple[Any, Any]) -> Any:
    """Return the result of an aggregate, which arrives with its key."""
    key, record = result
    assert text_of_key(key) == text_of_key(parts(record)[0])
    return record


class _CountWindow(ProcessWindowFunction):
    def __init__(self, options: dict[str, Any], conduct: Conduct) -> None:
        self._options, self._conduct = options, conduct

    def process(self, key: Any, context: Any, elements: list[Any]) -> Iterator[Any]:
        self._conduct.begin()
        numbers = [parts(one)[1] for one in elements]
        result = window_result(self._options, key, numbers)
        yield from self._conduct.each(None, (result,))

    def close(self) -> None:
        self._conduct.end()


class _Whole:
    def __init__(self, options: dict[str, Any], conduct: Conduct) -> None:
        self._options, self._conduct = options, conduct

    def said(self, key: Any, window: Any, elements: list[Any]) -> list[Any]:
        self._conduct.begin()
        total = 0
        for one in elements:
            total = following("sum", total, parts(one)[1])
        return [make(self._options["shape"], fresh(key), total, tuple(window))]

    def applied(self, key: Any, window: Any, elements: list[Any]) -> list[Any]:
        """Return the result of a window, as ``apply`` calls its function."""
        return self.said(key, window, elements)

    def applied_to_all(self, window: Any, elements: list[Any]) -> list[Any]:
        """Return the result of a window on a stream without keys."""
        return self.said("all", window, elements)

    def close(self) -> None:
        self._conduct.end()


class _WholeWindow(_Whole, ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: list[Any]) -> list[Any]:
        return self.said(key, context.window(), elements)


class _WholeAllWindow(_Whole, ProcessAllWindowFunction):
    def process(self, context: Any, elements: list[Any]) -> list[Any]:
        return self.said("all", context.window(), elements)
