"""The step load of texts on backpressure: a source of 2 MB/s, a sink of 1 MB/s, a 5 MB buffer.

- ``none``: the sink takes every record at once and stores it in its own buffer, from which it
  works. Records that do not fit into the buffer are lost.
- ``static``: the same, but the source is limited beforehand to the rate of the sink.
- ``credit``: the sink takes a record when it has time for it, and the exchange has 5 MB of network
  buffers.

After ten seconds the sink becomes twice as fast.

Every record carries the time at which it was made. Both ends are processes of one machine and share
its monotonic clock, so the sink knows the made and the processed records at any time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from time import monotonic_ns
from typing import Any, NamedTuple

from bench.errors import BenchError
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
from flinknet.datastream import (
    GeneratorSource,
    RateLimitedSource,
    RuntimeContext,
    Sink,
    StreamExecutionEnvironment,
)
from flinknet.errors import FlinknetError

__all__ = [
    "BUFFER_BYTES",
    "RECORD_BYTES",
    "STEP_S",
    "VARIANTS",
    "StepLoad",
    "Work",
    "run_step_load",
]

RECORD_BYTES = 1_000
BUFFER_BYTES = 5_000_000
SOURCE_PER_S = 2_000
SINK_PER_S = 1_000
LATE_S = 0.05
"""Delay of a timer up to which the sink does not lose the time."""

STEP_S = 0.25
"""Seconds between two points of the figure."""

VARIANTS = ("none", "static", "credit")
RATES = {"none": SOURCE_PER_S, "static": SINK_PER_S, "credit": SOURCE_PER_S}

CONFIG = FlinknetConfig(
    network=NetworkConfig(
        segment_bytes=32 * 1024, floating_buffers_per_gate=74, buffers_per_subpartition_max=76
    ),
    cluster=ClusterConfig(workers=2, slots_per_worker=1),
)
"""76 buffers on either side: 5 MB."""


class StepLoad(NamedTuple):
    """The results of a run."""

    records: int
    seconds: float
    made_mb: list[float]
    """Megabytes made up to each step, cumulative."""
    worked_mb: list[float]
    lost_mb: list[float]
    overflow_s: float | None
    """When the buffer was full for the first time."""
    verified: bool

    @property
    def buffered_mb(self) -> list[float]:
        """Megabytes between both ends at each step."""
        sums = zip(self.made_mb, self.worked_mb, self.lost_mb, strict=True)
        return [made - worked - lost for made, worked, lost in sums]


class Work:
    """The pace of a sink: ``per_s`` records per second, and twice as many after ``faster_at_s``."""

    def __init__(self, per_s: float, faster_at_s: float) -> None:
        self._per_s = per_s
        self._faster_at_s = faster_at_s
        self._done_at = 0.0

    def done_at(self, begun_s: float) -> float:
        """Return when a record is done that could begin at ``begun_s``, in seconds of the run."""
        start = self._done_at if begun_s < self._done_at + LATE_S else begun_s
        per_s = self._per_s if start < self._faster_at_s else 2 * self._per_s
        self._done_at = start + 1 / per_s
        return self._done_at


class PacedSink(Sink):
    """Processes records at its pace; with ``buffer_bytes`` it takes them at once into a buffer."""

    def __init__(self, buffer_bytes: int | None, faster_at_s: float) -> None:
        self._buffer_bytes = buffer_bytes
        self._work = Work(SINK_PER_S, faster_at_s)

    def open(self, context: RuntimeContext) -> None:
        """Initialize the counts."""
        self._context = context
        self._begun_ns = 0
        self._made_ns: list[int] = []
        self._worked_s: list[float] = []
        self._waiting: deque[object] = deque()
        self._lost_s: list[float] = []
        self._worker: asyncio.Task[None] | None = None

    def _now_s(self) -> float:
        return (monotonic_ns() - self._begun_ns) / 1e9

    async def write(self, records: Sequence[tuple[int, bytes]]) -> None:
        """Process records, or put them into the buffer."""
        for record in records:
            if not self._made_ns:
                self._begun_ns = record[0]
            self._made_ns.append(record[0])
            if self._buffer_bytes is None:
                await self._work_off()
            elif (len(self._waiting) + 1) * RECORD_BYTES > self._buffer_bytes:
                self._lost_s.append(self._now_s())
            else:
                self._waiting.append(record)
                if self._worker is None or self._worker.done():
                    self._worker = asyncio.get_running_loop().create_task(self._work_from_buffer())

    async def _work_from_buffer(self) -> None:
        while self._waiting:
            await self._work_off()
            self._waiting.popleft()

    async def _work_off(self) -> None:
        done_at = self._work.done_at(self._now_s())
        pause_s = done_at - self._now_s()
        if pause_s > 0:
            await asyncio.sleep(pause_s)
        self._worked_s.append(self._now_s())

    async def finish(self) -> None:
        """Process the rest of the buffer, and store the results in the metrics."""
        if self._worker is not None:
            await self._worker
        made_s = [(made_ns - self._begun_ns) / 1e9 for made_ns in self._made_ns]
        seconds = self._worked_s[-1]
        steps = [STEP_S * number for number in range(int(seconds / STEP_S) + 2)]
        self._context.metrics.update(
            made_mb=_up_to(made_s, steps),
            worked_mb=_up_to(self._worked_s, steps),
            records=len(made_s),
            worked=len(self._worked_s),
            lost=len(self._lost_s),
            lost_mb=_up_to(self._lost_s, steps),
            overflow_s=self._lost_s[0] if self._lost_s else None,
            seconds=seconds,
        )


def _up_to(times: Sequence[float], steps: Sequence[float]) -> list[float]:
    """Return the megabytes of the records with times up to each step."""
    sums, place = [], 0
    for step in steps:
        while place < len(times) and times[place] <= step:
            place += 1
        sums.append(place * RECORD_BYTES / 1e6)
    return sums


def make_record(number: int) -> bytes:
    """Return the payload; the time completes the record."""
    return number.to_bytes(4) + bytes(RECORD_BYTES - 20)


def stamped(payload: bytes) -> tuple[int, bytes]:
    """Return a record with the time at which it was made."""
    return monotonic_ns(), payload


def run_step_load(variant: str, seconds: float) -> StepLoad:
    """Run once, for ``seconds`` at the sink's first pace and as long at its second.

    Raises BenchError if the job fails.
    """
    rate = RATES[variant]
    records = round(2 * seconds * rate)
    environment = StreamExecutionEnvironment.get_execution_environment(CONFIG)
    source = RateLimitedSource(GeneratorSource(make_record, records), rate)
    source_stream = environment.from_source(source).slot_sharing_group("source")
    made = source_stream.map(stamped)
    sink = PacedSink(None if variant == "credit" else BUFFER_BYTES, seconds)
    made.rebalance().sink_to(sink).name("sink").slot_sharing_group("sink")
    try:
        result = environment.execute(f"step load, {variant}")
    except FlinknetError as error:
        raise BenchError(f"step load, {variant}: {error}") from error
    told: list[dict[str, Any]] = [row["metrics"].get("sink", {}) for row in result.vertices]
    [seen] = [one for one in told if "made_mb" in one]
    return StepLoad(
        records=seen["worked"],
        seconds=seen["seconds"],
        made_mb=seen["made_mb"],
        worked_mb=seen["worked_mb"],
        lost_mb=seen["lost_mb"],
        overflow_s=seen["overflow_s"],
        verified=seen["records"] == records == seen["worked"] + seen["lost"],
    )
