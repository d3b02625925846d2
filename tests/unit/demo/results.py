"""A made-up result of the demo with parts that agree."""

from __future__ import annotations

from pathlib import Path

from flinknet.demo.analysis import ChannelFigures, Latency, RunFigures, SubtaskFigures
from flinknet.demo.result import DemoParameters, DemoResult, Run, machine_facts
from flinknet.demo.verification import Verification

PASSED = Verification(224, 1_000, ())


def run(name: str, *, records_per_s: float, keyed: int = 4, sources: int = 4) -> Run:
    """Return a run with parts that agree."""
    latency = Latency(1_200.0, 5_600.0, 9_800.0, 23_456.0)
    records, seconds = 1_000 * keyed * sources, 1_000 * keyed * sources / records_per_s
    interval = seconds / 10
    return Run(
        name,
        records_per_s if name == "open-loop" else None,
        RunFigures(
            records,
            seconds,
            records_per_s,
            records_per_s * 30 / 1e6,
            latency,
            tuple(
                SubtaskFigures(k, f"worker-{k % 2}", 1_000 * sources, 1 / keyed, latency)
                for k in range(keyed)
            ),
            tuple(
                ChannelFigures(s, k, s % 2 == k % 2, 1_000, 1 / keyed / sources, latency)
                for k in range(keyed)
                for s in range(sources)
            ),
            tuple(
                tuple((i * interval, interval, 100 * sources) for i in range(10))
                for _ in range(keyed)
            ),
            ((900.0, records // 4), (1_200.0, records // 2), (23_456.0, records // 4)),
        ),
        PASSED,
    )


def result(output: Path, *, keyed: int = 4, sources: int = 4) -> DemoResult:
    return DemoResult(
        DemoParameters(output, scale=1, sources=sources, workers=2, slots=keyed // 2),
        machine_facts(),
        {"Saturation run": 1.5},
        run("saturation", records_per_s=1_234_567.0, keyed=keyed, sources=sources),
        run("columns", records_per_s=9_876_543.0, keyed=keyed, sources=sources),
        run("open-loop", records_per_s=617_283.5, keyed=keyed, sources=sources),
    )
