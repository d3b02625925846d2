"""flinknet as a job of the DataStream API, the counterpart of Flink's ExchangeJob.java.

A source yields the block repeatedly. A function runs for every record before the edge, and a sink's
function for every record behind it; in the other variant both run for every batch. The program says
no more than that, and the runtime groups the records of a network buffer.

The case ``keyby``, and the cases that other families derive from it, have two sources and two
sinks, one of each per worker. Any other case has one source and one sink, in separate slots. Every
run is two jobs, each on a new cluster of two worker processes. The first checks every field of one
block. The second runs for the warm-up and the measured time.
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
"""Interval at which a sink looks at the clock, until the warm-up is over."""


class Stage(NamedTuple):
    """The work of a job's tasks: the records, the duration, the warm-up and the CPUs."""

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
    """The measured time: from the end of the warm-up to the end of the records."""

    def __init__(self, warm_up_s: float) -> None:
        self._warm_up_s = warm_up_s
        self._created = Clocks.read()
        self._begun: Clocks | None = None

    def look(self) -> bool:
        """Begin the window if the warm-up is over; return whether it has begun."""
        if self._begun is None:
            now = Clocks.read()
            if (now - self._created).wall < self._warm_up_s:
                return False
            self._begun = now
        return True

    @property
    def has_begun(self) -> bool:
        """Whether the window has begun, which only ``look`` updates."""
        return self._begun is not None

    def until_now(self) -> Clocks:
        """Return the length of the window. Raises BenchError if it has not begun."""
        if self._begun is None:
            raise BenchError("the records have ended before the warm-up")
        return Clocks.read() - self._begun


class BlockSource(Source):
    """A pinned source that yields the block until the time is over."""

    replayable = True

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._block: Block = []

    def batches(self, context: RuntimeContext) -> Iterator[Block]:
        """Yield the block repeatedly, then store its tally in the metrics."""
        stage = self._stage
        pin(stage.source_cpus[context.index])
        # Kept until the subtask is gone, because freeing a million records also blocks the loop.
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
    """A pinned sink that counts records and adds up a field of each.

    A timer reads the clock between two batches, from the first record on.
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
        """Start the clocks with the first record, and the window with the end of the warm-up."""
        if self._window is None and self._records:
            self._window = Window(self._stage.warm_up_s)
        if self._window is not None and self._window.look():
            self._records_before = self._records
        else:
            clock = self._context.processing_time
            due_ms = clock.get_current_processing_time() + LOOK_MS
            self._timer = clock.register_timer(due_ms, lambda _: self._look())

    def finish(self) -> None:
        """Store the received records and the elapsed times in the metrics."""
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
        """Cancel the timer."""
        if self._timer is not None:
            self._context.processing_time.cancel(self._timer)


class CountingSink(CountingEnd, SinkFunction):
    """A counting sink that is called for every record."""

    def invoke(self, value: tuple[int, int, float]) -> None:
        """Count one record."""
        self._records += 1
        self._checksum += value[1]


class CountingBatchSink(CountingEnd, Sink):
    """A counting sink that is called for every batch."""

    def write(self, records: Block) -> None:
        """Count the records of a batch."""
        self._records += len(records)
        self._checksum += sum(map(self._stage.case.weigh, records))


class CheckingSink(SinkFunction):
    """Counts records and adds up a checksum of every field of each."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Reset the counts."""
        self._context = runtime_context
        self._records = self._checksum = 0

    def invoke(self, value: Any) -> None:
        """Count one record."""
        self._records += 1
        self._checksum += fingerprint(value)

    def finish(self) -> None:
        """Store the tally of the received records in the metrics."""
        self._context.metrics.update(Tally(self._records, self._checksum)._asdict())


def passed(value: Any) -> Any:
    """Return the record or batch unchanged; this is the function before the edge."""
    return value


def with_records_passed(stream: DataStream) -> DataStream:
    """Call ``passed`` for every record."""
    return stream.map(passed)


def with_batches_passed(stream: DataStream) -> DataStream:
    """Call ``passed`` for every batch."""
    return stream.map_batch(passed)


def leave(environment: StreamExecutionEnvironment) -> None:
    """Leave an environment as it is."""


@dataclass(frozen=True, slots=True)
class Variation:
    """The changes that another family makes to the job.

    ``config`` configures its cluster, and ``prepare`` changes the environment. ``calls`` adds the
    functions before the edge, ``function`` the one between the edge and the sink. ``sink`` makes
    the sink of the measured job.
    """

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
    """Return the measurement of a job with one source and one sink, without a checking run.

    All CPU time is attributed to the consumer.
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
    """The reports of a job's subtasks."""

    sent: list[dict[str, Any]]
    received: list[dict[str, Any]]

    @property
    def agrees(self) -> bool:
        """Whether all sent records have arrived."""
        return _tally_of(self.sent) == _tally_of(self.received)


def _tally_of(reports: Sequence[dict[str, Any]]) -> Tally:
    return Tally(*(sum(report[field] for report in reports) for field in Tally._fields))


def _run(stage: Stage, variation: Variation) -> Result:
    environment = StreamExecutionEnvironment.get_execution_environment(variation.config)
    variation.prepare(environment)
    environment.set_parallelism(len(stage.sink_cpus))
    sent = environment.from_source(BlockSource(stage), name=SOURCE)
    if not stage.is_keyed:
        # Separate groups put the source and the sink into slots of different workers.
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
    """Return the additional observations of the sinks, the maximum of each."""
    seen = ("standstill_ms", "held_ms", "checkpoints")
    return {name: max(report[name] for report in received) for name in seen if name in received[0]}


def _reports(result: JobResult, operator: str) -> list[dict[str, Any]]:
    """Return the reports of an operator's subtasks from their metrics."""
    metrics = [row["metrics"] for row in result.vertices]
    return [each[operator] for each in metrics if operator in each]


def parameters(case: Case, variant: str = VARIANT) -> dict[str, Any]:
    """Return the settings that matter for a fair comparison."""
    called_for = "record" if variant == VARIANT else "batch"
    return {
        "workers": 2,
        "functions": f"one for every {called_for} before the edge, one behind it",
        "edge": "key groups" if is_keyed(case) else "forward",
        "credit": "on",
        **network_parameters(NetworkConfig()),
    }
