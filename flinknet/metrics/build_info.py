"""Which flinknet runs in a process, for dashboards that tell compiled workers from plain ones."""

from __future__ import annotations

from flinknet.compiled_modules import IMPLEMENTATION, INTERPRETER
from flinknet.metrics.registry import Catalogue, Family, Labels, Metric, Unit
from flinknet.version import __version__

__all__ = ["BUILD", "BUILD_LABELS", "build_info"]

BUILD_LABELS = ("version", "implementation", "python")

BUILD: Catalogue[int] = Catalogue(
    "Builds",
    (
        Metric(
            "flinknet_build_info",
            Unit.NUMBER,
            int,
            "1; version, whether the record path is compiled or pure, and the interpreter",
        ),
    ),
    labels=("host", "tm_id", *BUILD_LABELS),
)
"""Of a worker; the coordinator has no ``tm_id``."""


def build_info(labels: Labels) -> Family:
    """Make a family whose one sample is 1: its labels have the information."""
    known = {
        "version": __version__,
        "implementation": IMPLEMENTATION,
        "python": INTERPRETER,
    }
    [family] = BUILD.families([({**labels, **known}, 1)])
    return family
