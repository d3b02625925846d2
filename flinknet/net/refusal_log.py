"""The refusal log: counts refused peers by reason, and logs them at a limited rate.

Another instance does the same for peers that broke the protocol, by kind of violation.

A stranger may try as often as it likes and must not fill the log. A source (the peer's host)
therefore gets one line per minute for each reason, and the next line has the number of refusals in
between. The number of remembered sources is limited, and a further one replaces the oldest. Time is
passed in as ``now``.
"""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass

__all__ = ["RefusalLog"]

log = logging.getLogger("flinknet.net")

_LINE_INTERVAL_S = 60.0
"""Time in seconds between two lines about one source and reason."""

_EXPECTED = frozenset({"duplicate", "closing", "silent", "left"})
"""Reasons that are no fault: two workers dialled each other, this worker closes, a port scan, and a
peer that gives up."""

_REMEMBERED_MAX = 256
"""Number of pairs of source and reason, which take 50 KiB. Dropping a pair costs less than writing
its log line."""


@dataclass(slots=True)
class _LoggedLine:
    at: float
    suppressed: int = 0


class RefusalLog:
    """Counts refused peers and logs them.

    Log lines begin with the argument: "refused", or "broke the protocol".
    """

    def __init__(self, what: str = "refused") -> None:
        self._what = what
        self.counts: Counter[str] = Counter()
        self._logged: dict[tuple[str, str], _LoggedLine] = {}

    def count(self, reason: str, source: str, text: str, now: float) -> None:
        """Count a refused peer; ``reason`` is a word for metrics, ``text`` a message for people."""
        self.counts[reason] += 1
        if reason in _EXPECTED:
            log.debug("%s (%s): %s", self._what, reason, text)
            return
        logged = self._logged.get((source, reason))
        if logged is not None and now - logged.at < _LINE_INTERVAL_S:
            logged.suppressed += 1
            return
        suppressed = logged.suppressed if logged is not None else 0
        others = f" ({suppressed} more since the last line)" if suppressed else ""
        self._logged.pop((source, reason), None)
        if len(self._logged) >= _REMEMBERED_MAX:
            del self._logged[next(iter(self._logged))]
        self._logged[source, reason] = _LoggedLine(now)
        log.warning("%s (%s): %s%s", self._what, reason, text, others)
