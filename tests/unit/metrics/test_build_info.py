"""One sample that names the running software."""

from __future__ import annotations

from flinknet.compiled_modules import IMPLEMENTATION, INTERPRETER
from flinknet.metrics.build_info import build_info
from flinknet.metrics.registry import Kind
from flinknet.version import __version__


def test_its_labels_say_what_runs() -> None:
    family = build_info({"tm_id": "worker-0"})
    labels = {
        "tm_id": "worker-0",
        "version": __version__,
        "implementation": IMPLEMENTATION,
        "python": INTERPRETER,
    }
    assert (family.name, family.kind) == ("flinknet_build_info", Kind.GAUGE)
    assert family.samples == [(labels, 1)]
