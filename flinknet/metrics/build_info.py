"""Which flinknet runs in a process, for dashboards that tell compiled workers from plain ones."""

from __future__ import annotations

from flinknet.compiled_modules import IMPLEMENTATION, INTERPRETER
from flinknet.metrics.families import Family, Kind, Labels
from flinknet.version import __version__

__all__ = ["build_info"]


def build_info(labels: Labels) -> Family:
    """A family whose one sample is 1: what there is to know stands in its labels."""
    known = {
        "version": __version__,
        "implementation": IMPLEMENTATION,
        "python": INTERPRETER,
    }
    return Family(
        "flinknet_build_info",
        "1; version, whether the record path is compiled or pure, and the interpreter",
        Kind.GAUGE,
        [({**labels, **known}, 1)],
    )
