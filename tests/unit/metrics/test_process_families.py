"""A process's CPU and threads under Flink's names: what they are, by the process's own account."""

from __future__ import annotations

import threading

import pytest

from flinknet.metrics.process_families import ProcessFamilies

LABELS = {"tm_id": "worker-0"}


def values(process: ProcessFamilies) -> dict[str, float]:
    return {family.name: family.samples[0][1] for family in process.families(LABELS)}


@pytest.mark.parametrize("scope", ["taskmanager", "jobmanager"])
def test_threads_and_cpu_time_are_those_of_this_process(scope: str) -> None:
    process = ProcessFamilies(scope, lambda: 0.0, lambda: 7_000)
    begun, goes_on = threading.Event(), threading.Event()

    def live() -> None:
        begun.set()
        goes_on.wait()

    before = values(process)
    thread = threading.Thread(target=live)
    thread.start()
    begun.wait()
    after = values(process)
    goes_on.set()
    thread.join()
    name = f"flink_{scope}_Status_JVM_Threads_Count"
    assert after[name] == before[name] + 1
    assert after[f"flink_{scope}_Status_JVM_CPU_Time"] == 7_000


def test_the_load_is_a_part_of_the_whole_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    now_s, computed_ns = iter([100.0, 101.0, 110.0]), iter([0, 1_000_000_000, 20_000_000_000])
    process = ProcessFamilies("taskmanager", lambda: next(now_s), lambda: next(computed_ns))
    name = "flink_taskmanager_Status_JVM_CPU_Load"
    assert values(process)[name] == 0
    assert values(process)[name] == 0.5
