"""Refusals: peers that were not let in are counted by reason, and told in the log, but not each.

So are peers that have broken the protocol, by its kind.

Theory of operation. A stranger may try as often as it likes, and must not fill the log. So a source
(the peer's host) gets one line a minute for each reason, and the next line says how many there were
in between. Sources that are remembered are few; a further one makes the oldest be forgotten.
Time comes in as ``now``.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass

__all__ = ["Refusals"]

log = logging.getLogger("flinknet.net")

_LINE_INTERVAL_S = 60.0
"""Between two lines of one source for one reason."""

_EXPECTED = frozenset({"duplicate", "closing", "silent", "left"})
"""Reasons that tell of no fault: two workers that dialled each other, the end of this one, a look
whether a port is open, and a peer that gives up."""

_REMEMBERED_MAX = 256
"""Pairs of source and reason: 50 KiB. A line of the log costs more than to forget one."""


@dataclass(slots=True)
class _Told:
    at: float
    untold: int = 0


class Refusals:
    """Counts refused peers, and tells of them.

    ``what`` says what was done: "refused", or what else ends a connection.
    """

    def __init__(self, what: str = "refused") -> None:
        self._what = what
        self.counts: Counter[str] = Counter()
        self._told: dict[tuple[str, str], _Told] = {}

    def count(self, reason: str, source: str, text: str, now: float) -> None:
        """A peer was refused; ``reason`` is a word for metrics, ``text`` says it to people."""
        self.counts[reason] += 1
        if reason in _EXPECTED:
            log.debug("%s (%s): %s", self._what, reason, text)
            return
        told = self._told.get((source, reason))
        if told is not None and now - told.at < _LINE_INTERVAL_S:
            told.untold += 1
            return
        others = f" ({told.untold} more since the last line)" if told and told.untold else ""
        self._told.pop((source, reason), None)
        if len(self._told) >= _REMEMBERED_MAX:
            del self._told[next(iter(self._told))]
        self._told[source, reason] = _Told(now)
        log.warning("%s (%s): %s%s", self._what, reason, text, others)
