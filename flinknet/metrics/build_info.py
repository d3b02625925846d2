"""The flinknet build of a process, for dashboards that distinguish compiled workers."""

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
"""The build of a worker; the coordinator has no ``tm_id``."""


def build_info(labels: Labels) -> Family:
    """Return a family with one sample of value 1, with the build in its labels."""
    known = {
        "version": __version__,
        "implementation": IMPLEMENTATION,
        "python": INTERPRETER,
    }
    [family] = BUILD.families([({**labels, **known}, 1)])
    return family
