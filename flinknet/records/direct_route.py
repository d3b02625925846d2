"""Direct routes: ``emit`` without an object for the record's bytes, where the packer is compiled.

Theory of operation. The packer holds a record's bytes in memory of its own, and copies them to
where the record goes, if they fit there; if they do not, they become ``bytes``, for the appender.
In C that saves what it takes to make bytes, and to call the builder's ``write``; in Python it would
be the same with one call more, so that ``RecordWriter`` takes the plain routes there. In C a small
record is even packed where it goes (``flat_packing.pxd``), so that its channel is chosen before.
The channel of a tuple is found without calling the key's function, where that is known
(``tuple_channels.py``); whose turn it is, is seen without a call (``round_robin.py``). Everything
else is as in ``route.py``.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from flinknet.records.appender import RecordAppender
from flinknet.records.output import Output
from flinknet.records.partitioner import Partitioner
from flinknet.records.route import RouteToChosen, RouteToOne
from flinknet.records.serialization.c_packer import CPacker
from flinknet.records.serialization.large_record import large_form
from flinknet.records.serialization.limits import RecordLimits
from flinknet.records.serialization.packer import RecordPacker, unserializable
from flinknet.records.tuple_channels import NOT_KNOWN
from flinknet.records.written import WRITTEN

__all__ = ["DirectRouteToChosen", "DirectRouteToOne"]


class DirectRouteToOne(RouteToOne):
    """Every record to the same output."""

    __slots__ = ("_direct",)

    def __init__(
        self,
        packer: RecordPacker,
        appender: RecordAppender,
        limits: RecordLimits,
        output: Output,
    ) -> None:
        super().__init__(packer, appender, limits, output)
        self._direct = _compiled_packer(packer)

    def emit(self, record: Any) -> Coroutine[Any, Any, None]:
        """Write a record to the output."""
        if self._large and (pieces := large_form(record)) is not None:
            return self._emit_large(self._output, pieces)
        direct = self._direct
        try:
            held = direct.hold(record)
        except Exception as cause:
            raise unserializable(record, cause) from cause
        data = direct.write(held, self._output.builder)
        if data is None:
            self.records_out += 1
            return WRITTEN
        return self._append_packed(self._output, data)


class DirectRouteToChosen(RouteToChosen):
    """Each record to the output that the partitioner chooses for it."""

    __slots__ = ("_direct", "_tuple_channels")

    def __init__(
        self,
        packer: RecordPacker,
        appender: RecordAppender,
        limits: RecordLimits,
        outputs: Sequence[Output],
        partitioner: Partitioner,
    ) -> None:
        super().__init__(packer, appender, limits, outputs, partitioner)
        self._direct = _compiled_packer(packer)
        self._tuple_channels = partitioner.tuple_channels

    def emit(self, record: Any) -> Coroutine[Any, Any, None]:
        """Write a record to its output."""
        if self._large and (pieces := large_form(record)) is not None:
            return self._emit_large(self._outputs[self._select(record)], pieces)
        direct, tuple_channels = self._direct, self._tuple_channels
        channel = NOT_KNOWN if tuple_channels is None else tuple_channels.channel(record)
        try:
            held = direct.hold(record)
        except Exception as cause:
            raise unserializable(record, cause) from cause
        try:
            output = self._outputs[self._select(record) if channel == NOT_KNOWN else channel]
        except BaseException:
            direct.release(held)
            raise
        data = direct.write(held, output.builder)
        if data is None:
            self.records_out += 1
            return self._one_is_written()
        return self._append_packed(output, data)


def _compiled_packer(packer: RecordPacker) -> CPacker:
    direct = packer.direct
    assert direct is not None, "a direct route is taken where the packer is direct"
    return direct
