"""Where a stream gets its timestamps and watermarks (Flink's TimestampsAndWatermarksOperator).

Theory of operation. Behind this operator the records are tuples ``(timestamp, value)``. Every
``auto_watermark_interval_ms`` the subtask says how far event time has come, if it has, between two
batches; with 0 it does not. What watermarks there were before count no more, except the last one,
after all event time: nothing comes behind it. The end of the input is the end of event time.

With idleness, a subtask that has had nothing for so long says so, and that it is active again
before the next records. The time in which the operators behind held it back does not count.
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
from flinknet.wire.events import MAX_WATERMARK, MIN_WATERMARK, Watermark, WatermarkStatus

__all__ = ["AssignTimestampsOperator"]

TIMESTAMP_MS_MAX = MAX_WATERMARK


class AssignTimestampsOperator(Operator):
    """Gives records their timestamps; ``stamped`` if they have some already."""

    takes_timestamps = True

    def __init__(self, strategy: WatermarkStrategy, *, stamped: bool = False) -> None:
        if not isinstance(strategy, WatermarkStrategy):
            raise ConfigurationError(
                f"assign_timestamps_and_watermarks needs a WatermarkStrategy, not "
                f"{type(strategy).__name__}"
            )
        self._strategy = strategy
        self._stamped = stamped
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
        """What was idle before the operator is of no matter behind it."""

    async def _process(self, records: list[Any]) -> None:
        stamped = self._with_timestamps(records)
        await self._activate()
        await self._emit(stamped)
        latest_ms = max(stamp for stamp, _ in stamped)
        self._generator.on_batch(latest_ms, self._clock.get_relative_time())

    def _with_timestamps(self, records: list[Any]) -> list[tuple[int, Any]]:
        extract = self._extract
        if extract is None:
            for stamp, value in records:
                if stamp is None:
                    missing = ValueError("it has no timestamp: give the strategy an assigner")
                    self.fail(missing, on_records((value,)))
            return records
        taken = iter(records)
        try:
            if self._stamped:
                stamped = [(extract(value, stamp), value) for stamp, value in taken]
            else:
                stamped = [(extract(value, None), value) for value in taken]
        except BaseException as error:
            failed = records[-1 - length_hint(taken)]
            self.fail(error, on_records((failed[1] if self._stamped else failed,)))
        for stamp, value in stamped:
            if type(stamp) is not int or not MIN_WATERMARK < stamp < MAX_WATERMARK:
                wrong = TypeError(
                    f"the timestamp assigner returned {stamp!r}: return whole milliseconds, an int"
                )
                self.fail(wrong, on_records((value,)))
        return stamped

    async def _on_timer(self, timestamp_ms: int) -> None:
        self._set_timer()
        if self._generator.is_idle(self._clock.get_relative_time()):
            if not self._idle:
                self._idle = True
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
