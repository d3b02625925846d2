"""A process's CPU time and threads, as it measures them itself."""

from __future__ import annotations

import threading

import pytest

from flinknet.metrics.process_totals import ProcessMeter


def test_threads_and_cpu_time_are_those_of_this_process() -> None:
    meter = ProcessMeter(lambda: 0.0, lambda: 7_000)
    begun, goes_on = threading.Event(), threading.Event()

    def live() -> None:
        begun.set()
        goes_on.wait()

    before = meter.totals()
    thread = threading.Thread(target=live)
    thread.start()
    begun.wait()
    after = meter.totals()
    goes_on.set()
    thread.join()
    assert after.threads == before.threads + 1
    assert after.computed_ns == 7_000


def test_the_load_is_a_part_of_the_whole_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    now_s, computed_ns = iter([100.0, 101.0, 110.0]), iter([0, 1_000_000_000, 20_000_000_000])
    meter = ProcessMeter(lambda: next(now_s), lambda: next(computed_ns))
    assert meter.totals().load == 0
    assert meter.totals().load == 0.5
