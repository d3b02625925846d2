"""Facts about the machine, without which a result means little."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.harness.pinning import Pinning
from flinknet.compiled_modules import IMPLEMENTATION

__all__ = ["BUSY_LOAD", "describe", "machine_facts"]

BUSY_LOAD = 0.5
"""Load average before the measurement above which other programs disturb it."""

LIBRARIES = ("flinknet", "msgpack", "ormsgpack", "uvloop")


def machine_facts(pinning: Pinning, libraries: Iterable[str] = LIBRARIES) -> dict[str, Any]:
    """Return the facts as plain JSON values, with the load average before the runs."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.system(),
        "kernel": platform.release(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": {name: metadata.version(name) for name in libraries},
        "flinknet": IMPLEMENTATION,
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "cpu_of_producer": pinning.producer,
        "cpu_of_consumer": pinning.consumer,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def describe(facts: dict[str, Any]) -> str:
    """Return the facts as one readable line; the oldest ones lack flinknet's implementation."""
    implementation = f", flinknet {facts['flinknet']}" if "flinknet" in facts else ""
    libraries = ", ".join(f"{name} {version}" for name, version in facts["libraries"].items())
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['system']} {facts['kernel']}, "
        f"{facts['python']}, {libraries}{implementation}; "
        f"load average before the runs {facts['load_average'][0]}"
    )


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
