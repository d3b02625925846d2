"""flinknet as a job of the DataStream API, as Flink takes part: what ExchangeJob.java is there.

A source hands out the block over and over, a function is called for every record on its way out,
and a sink's function for every record that has arrived; in the other variant both for every batch.
That is all a program says; the runtime takes the records of a network buffer together. The case
``keyby`` has two sources and two sinks, a worker each, as have those that other families make of
it; any other one source and one sink, in slots of their own. Every run is two jobs, each on a new
cluster of two worker processes: one block of which every field is checked, and the measured time,
with the warm-up before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.errors import BenchError
from bench.harness.case import Block, Case, Tally, fingerprint
from bench.harness.flinknet_system import network_parameters
from bench.harness.pinning import Pinning, pin
from bench.harness.process import Clocks
from bench.harness.side import Round
from bench.harness.trial import Measurement, Plan
from bench.peers.cases import is_keyed
from flinknet import FlinknetConfig, NetworkConfig
from flinknet.cluster.control.job_result import JobResult
from flinknet.datastream import (
    DataStream,
    Function,
    KeyedProcessFunction,
    RuntimeContext,
    Sink,
    SinkFunction,
    StreamExecutionEnvironment,
)
from flinknet.environment.processing_time import ScheduledTimer
from flinknet.errors import FlinknetError
from flinknet.operators.source import Source

__all__ = [
    "VARIANT",
    "VARIANTS",
    "CountingSink",
    "Stage",
    "Variation",
    "measure",
    "measurement_of",
    "parameters",
]

VARIANT = "job"
SOURCE, SINK = "source", "sink"
LOOK_MS = 5
"""So often a sink looks at the clock, until the warm-up is over."""


class Stage(NamedTuple):
    """What the tasks of a job are to do: which records, for how long, counted from when, where."""

    case: Case
    round: Round
    warm_up_s: float
    source_cpus: Sequence[int | None]
    sink_cpus: Sequence[int | None]

    @property
    def is_keyed(self) -> bool:
        """Whether each worker has a source and a sink."""
        return is_keyed(self.case)

    @property
    def is_check(self) -> bool:
        """Whether every field of one block is checked, and nothing is measured."""
        return self.round.seconds is None


class Window:
    """The time that counts: from the end of the warm-up to the end of the records."""

    def __init__(self, warm_up_s: float) -> None:
        self._warm_up_s = warm_up_s
        self._created = Clocks.read()
        self._begun: Clocks | None = None

    def look(self) -> bool:
        """Look at the clock: it begins if the warm-up is over; return whether it has begun."""
        if self._begun is None:
            now = Clocks.read()
            if (now - self._created).wall < self._warm_up_s:
                return False
            self._begun = now
        return True

    @property
    def has_begun(self) -> bool:
        """Whether the warm-up was over when somebody looked."""
        return self._begun is not None

    def until_now(self) -> Clocks:
        """Return its length. Raises BenchError if it has not begun."""
        if self._begun is None:
            raise BenchError("the records have ended before the warm-up")
        return Clocks.read() - self._begun


class BlockSource(Source):
    """The block, until the time is over; on its CPU."""

    replayable = True

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._block: Block = []

    def batches(self, context: RuntimeContext) -> Iterator[Block]:
        """Hand it out, and leave in the metrics what it was."""
        stage = self._stage
        pin(stage.source_cpus[context.index])
        # Kept until the subtask is gone: to free a million records stops the loop, too.
        self._block = stage.case.make_block()
        feed = stage.round.feed(stage.case, self._block)
        window = Window(stage.warm_up_s)
        for block in feed:
            window.look()
            yield block
        context.metrics.update(feed.tally()._asdict())
        if not stage.is_check:
            context.metrics.update(cpu_s=window.until_now().cpu)


class CountingEnd(Function):
    """Counts records and adds up a field of each; on its CPU.

    The clock is read by a timer, between two batches, from the first record on.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._records = self._checksum = 0
        self._records_before = 0
        self._window: Window | None = None
        self._timer: ScheduledTimer | None = None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Wait for the first record."""
        self._context = runtime_context
        pin(self._stage.sink_cpus[runtime_context.index])
        self._look()

    @property
    def measures(self) -> bool:
        """Whether the window has begun."""
        return self._window is not None and self._window.has_begun

    def _look(self) -> None:
        """Have the clocks start with the first record, and the window with the warm-up's end."""
        if self._window is None and self._records:
            self._window = Window(self._stage.warm_up_s)
        if self._window is not None and self._window.look():
            self._records_before = self._records
        else:
            clock = self._context.processing_time
            due_ms = clock.get_current_processing_time() + LOOK_MS
            self._timer = clock.register_timer(due_ms, lambda _: self._look())

    def finish(self) -> None:
        """Leave in the metrics what has arrived, and in what time."""
        if self._window is None:
            raise BenchError("no record has arrived")
        wall, cpu = self._window.until_now()
        self._context.metrics.update(
            Tally(self._records, self._checksum)._asdict(),
            window_records=self._records - self._records_before,
            window_s=wall,
            cpu_s=cpu,
        )

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._context.processing_time.cancel(self._timer)


class CountingSink(CountingEnd, SinkFunction):
    """Is called for every record."""

    def invoke(self, value: tuple[int, int, float]) -> None:
        """Take one record."""
        self._records += 1
        self._checksum += value[1]


class CountingBatchSink(CountingEnd, Sink):
    """Is called for every batch."""

    def write(self, records: Block) -> None:
        """Take records."""
        self._records += len(records)
        self._checksum += sum(map(self._stage.case.weigh, records))


class CheckingSink(SinkFunction):
    """Counts records and adds up a checksum of every field of each."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Begin with nothing."""
        self._context = runtime_context
        self._records = self._checksum = 0

    def invoke(self, value: Any) -> None:
        """Take one record."""
        self._records += 1
        self._checksum += fingerprint(value)

    def finish(self) -> None:
        """Leave in the metrics what has arrived."""
        self._context.metrics.update(Tally(self._records, self._checksum)._asdict())


def passed(value: Any) -> Any:
    """The function that is called on the way out, for every record or for every batch."""
    return value


def with_records_passed(stream: DataStream) -> DataStream:
    """Call it for every record."""
    return stream.map(passed)


def with_batches_passed(stream: DataStream) -> DataStream:
    """Call it for every batch."""
    return stream.map_batch(passed)


def leave(environment: StreamExecutionEnvironment) -> None:
    """Leave an environment as it is."""


@dataclass(frozen=True, slots=True)
class Variation:
    """What another family does with the job: its cluster's configuration, what it asks of the
    environment, what is called before the edge, a function between the edge and the sink, the sink
    of the run that counts."""

    config: FlinknetConfig | None = None
    prepare: Callable[[StreamExecutionEnvironment], object] = leave
    calls: Callable[[DataStream], DataStream] = with_records_passed
    function: Callable[[], KeyedProcessFunction] | None = None
    sink: Callable[[Stage], CountingSink | CountingBatchSink] = CountingSink


AS_IT_IS = Variation()
VARIANTS = {
    VARIANT: AS_IT_IS,
    f"{VARIANT}-bulk": Variation(calls=with_batches_passed, sink=CountingBatchSink),
}


def measure(
    case: Case, plan: Plan, pinning: Pinning, variation: Variation = AS_IT_IS
) -> Measurement:
    """Run once. Raises BenchError if a job fails, or does not use the network."""
    places = (pinning, pinning) if is_keyed(case) else (pinning[:1], pinning[1:])
    check = _run(Stage(case, Round(None), 0.0, *places), variation)
    seconds = plan.warm_up_s + plan.seconds
    result = _run(Stage(case, Round(seconds), plan.warm_up_s, *places), variation)
    received = result.received
    first, second = received if len(received) == 2 else (*result.sent, *received)
    return Measurement(
        records=sum(report["window_records"] for report in received),
        seconds=sum(report["window_s"] for report in received) / len(received),
        producer_cpu_seconds=first["cpu_s"],
        consumer_cpu_seconds=second["cpu_s"],
        verified=check.agrees and result.agrees,
        observations={"workers": 2, "edge": "remote", **_observations(received)},
    )


def measurement_of(job: JobResult, **observations: Any) -> Measurement:
    """Return what a job of one source and one sink has measured, which has made no run to check.

    All CPU time counts as the consumer's.
    """
    result = Result(_reports(job, SOURCE), _reports(job, SINK))
    (received,) = result.received
    return Measurement(
        records=received["window_records"],
        seconds=received["window_s"],
        producer_cpu_seconds=0.0,
        consumer_cpu_seconds=received["cpu_s"],
        verified=result.agrees,
        observations=observations,
    )


class Result(NamedTuple):
    """What the subtasks of a job have left."""

    sent: list[dict[str, Any]]
    received: list[dict[str, Any]]

    @property
    def agrees(self) -> bool:
        """Whether everything that was sent has arrived."""
        return _tally_of(self.sent) == _tally_of(self.received)


def _tally_of(reports: Sequence[dict[str, Any]]) -> Tally:
    return Tally(*(sum(report[field] for report in reports) for field in Tally._fields))


def _run(stage: Stage, variation: Variation) -> Result:
    environment = StreamExecutionEnvironment.get_execution_environment(variation.config)
    variation.prepare(environment)
    environment.set_parallelism(len(stage.sink_cpus))
    sent = environment.from_source(BlockSource(stage), name=SOURCE)
    if not stage.is_keyed:
        sent.slot_sharing_group(SOURCE)
    sent = variation.calls(sent)
    sink = CheckingSink() if stage.is_check else variation.sink(stage)
    received = _edge(sent, stage, variation).sink_to(sink).name(SINK)
    if not stage.is_keyed:
        received.slot_sharing_group(SINK)
    try:
        result = environment.execute(stage.case.name)
    except FlinknetError as error:
        raise BenchError(f"{stage.case.name}, flinknet {VARIANT}: {error}") from error
    if len({row["worker_id"] for row in result.vertices}) != 2:
        raise BenchError(f"flinknet has put all tasks into one worker: {result.vertices}")
    return Result(_reports(result, SOURCE), _reports(result, SINK))


def _edge(sent: DataStream, stage: Stage, variation: Variation) -> DataStream:
    if not stage.is_keyed or stage.case.key is None:
        return sent.forward()
    keyed = sent.key_by(stage.case.key)
    return keyed if variation.function is None else keyed.process(variation.function())


def _observations(received: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What a sink has seen besides, the most of all sinks."""
    seen = ("standstill_ms", "held_ms", "checkpoints")
    return {name: max(report[name] for report in received) for name in seen if name in received[0]}


def _reports(result: JobResult, operator: str) -> list[dict[str, Any]]:
    """What the subtasks of an operator have left in their metrics."""
    metrics = [row["metrics"] for row in result.vertices]
    return [each[operator] for each in metrics if operator in each]


def parameters(case: Case, variant: str = VARIANT) -> dict[str, Any]:
    """Return what matters for a fair reading."""
    called_for = "record" if variant == VARIANT else "batch"
    return {
        "workers": 2,
        "functions": f"one for every {called_for} before the edge, one behind it",
        "edge": "key groups" if is_keyed(case) else "forward",
        "credit": "on",
        **network_parameters(NetworkConfig()),
    }
