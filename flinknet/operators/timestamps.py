"""Assignment of timestamps and watermarks (Flink's TimestampsAndWatermarksOperator).

Theory of operation. Downstream of this operator, records have timestamps
(``timestamped_batch.py``). Every ``auto_watermark_interval_ms`` the operator emits a watermark
between two batches, if event time has advanced; an interval of 0 disables this. Watermarks from
upstream are dropped, except the final one (MAX_WATERMARK). The end of the input is the end of event
time.

With idleness configured, a subtask that has received nothing for that long emits IDLE. It emits
ACTIVE before the next records. Time under backpressure does not count as idle.
"""

from __future__ import annotations

from operator import length_hint
from typing import Any

from flinknet.environment.processing_time import ScheduledTimer
from flinknet.errors import ConfigurationError
from flinknet.functions.calls import bound_function
from flinknet.functions.context import RuntimeContext
from flinknet.functions.watermark_strategy import WatermarkGenerator, WatermarkStrategy
from flinknet.operators.operators import Operator, on_records
from flinknet.operators.timestamped_batch import Batch, TimestampedBatch, as_pairs, values_of
from flinknet.wire.events import MAX_WATERMARK, MIN_WATERMARK, Watermark, WatermarkStatus

__all__ = ["AssignTimestampsOperator"]

TIMESTAMP_MS_MAX = MAX_WATERMARK


class AssignTimestampsOperator(Operator):
    """Assigns timestamps to records, replacing any that they have."""

    def __init__(self, strategy: WatermarkStrategy) -> None:
        if not isinstance(strategy, WatermarkStrategy):
            raise ConfigurationError(
                f"assign_timestamps_and_watermarks needs a WatermarkStrategy, not "
                f"{type(strategy).__name__}"
            )
        self._strategy = strategy
        assigner = strategy.timestamp_assigner
        self._extract = None if assigner is None else bound_function(assigner, "extract_timestamp")
        self._last_ms = MIN_WATERMARK
        self._idle = False
        self._timer: ScheduledTimer | None = None
        self.process = self._process

    async def open(self, context: RuntimeContext) -> None:
        await super().open(context)
        self._clock = context.processing_time
        self._interval_ms = context.auto_watermark_interval_ms
        self._generator = WatermarkGenerator(self._strategy, self._clock.get_relative_time())
        self._set_timer()

    async def close(self) -> None:
        if self._timer is not None:
            self._clock.cancel(self._timer)

    async def end_of_input(self) -> None:
        await self._activate()
        await self._advance(MAX_WATERMARK)

    async def process_watermark(self, watermark: Watermark) -> None:
        if watermark.timestamp_ms == MAX_WATERMARK:
            await self._activate()
            await self._advance(MAX_WATERMARK)

    async def process_watermark_status(self, status: WatermarkStatus) -> None:
        """Drop the upstream status: this operator detects idleness itself."""

    async def _process(self, records: Batch) -> None:
        stamps = self._stamps_of(records)
        await self._activate()
        latest_ms = max(stamps)
        await self._emit(TimestampedBatch(values_of(records), stamps))
        # Read the clock after the emission, so that backpressure does not count as idle time.
        self._generator.on_batch(latest_ms, self._clock.get_relative_time())

    def _stamps_of(self, records: Batch) -> list[Any]:
        """Return the timestamp of each record."""
        extract, values = self._extract, values_of(records)
        stamps: list[Any] = []
        if extract is None:
            stamps = [stamp for stamp, _ in as_pairs(records)]
            if None in stamps:
                missing = ValueError("it has no timestamp: give the strategy an assigner")
                self.fail(missing, on_records((values[stamps.index(None)],)))
            return stamps
        taken = iter(values)
        try:
            if isinstance(records, TimestampedBatch):
                had = zip(records.stamps, taken)  # noqa: B905  they are as long as each other
                stamps = [extract(value, stamp) for stamp, value in had]
            else:
                stamps = [extract(value, None) for value in taken]
        except BaseException as error:
            self.fail(error, on_records((values[-1 - length_hint(taken)],)))
        for stamp, value in zip(stamps, values, strict=True):
            if type(stamp) is not int or not MIN_WATERMARK < stamp < MAX_WATERMARK:
                wrong = TypeError(
                    f"the timestamp assigner returned {stamp!r}: return whole milliseconds, an int"
                )
                self.fail(wrong, on_records((value,)))
        return stamps

    async def _on_timer(self, timestamp_ms: int) -> None:
        self._set_timer()
        if self._generator.is_idle(self._clock.get_relative_time()):
            if not self._idle:
                self._idle = True
                # The watermark goes first, because consumers ignore watermarks of idle channels.
                await self._advance(self._generator.watermark())
                await self._pass_on(WatermarkStatus(idle=True))
        else:
            await self._advance(self._generator.watermark())

    async def _activate(self) -> None:
        if self._idle:
            self._idle = False
            await self._pass_on(WatermarkStatus(idle=False))

    async def _advance(self, watermark_ms: int) -> None:
        if watermark_ms > self._last_ms:
            self._last_ms = watermark_ms
            self._context.process_context.current_watermark = watermark_ms
            await self._pass_on(Watermark(watermark_ms))

    def _set_timer(self) -> None:
        if self._interval_ms > 0:
            self._timer = self._clock.register_delay(self._interval_ms, self._on_timer)
