"""Text that Prometheus reads, and the collector of a program that embeds an environment."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from flinknet.metrics.exporter import SAMPLES_PER_PIECE, FlinknetCollector, render
from flinknet.metrics.families import Family, Kind
from flinknet.metrics.network_families import worker_families
from flinknet.net.network_environment import NetworkEnvironment
from tests.unit.metrics.samples import worker

LABELS = {"host": "127.0.0.1", "tm_id": "worker-0"}


def parsed(text: bytes) -> dict[str, dict[str, list[tuple[dict[str, str], float]]]]:
    """Samples by name, by the type of their family."""
    found: dict[str, dict[str, list[tuple[dict[str, str], float]]]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            by_name = found.setdefault(family.type, {})
            by_name.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


async def test_a_workers_families_become_text() -> None:
    text = await render(worker_families(LABELS, worker(subtasks=2)))
    found = parsed(text)
    received = found["gauge"]["flink_taskmanager_job_task_numRecordsIn"]
    assert [(labels["subtask_index"], value) for labels, value in received] == [("0", 1), ("1", 1)]
    assert found["counter"]["flinknet_connections_lost_total"] == [(LABELS, 1)]
    assert b"flink_taskmanager_job_task_numRecordsIn_total" not in text
    assert found["counter"]["process_cpu_seconds_total"][0][1] > 0


async def test_a_large_family_is_one_and_the_loop_turns_in_between() -> None:
    samples = [({"number": str(number)}, float(number)) for number in range(SAMPLES_PER_PIECE * 3)]
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    text = await render([Family("many", "Numbers", Kind.GAUGE, samples)])
    counting.cancel()
    assert text.count(b"# TYPE many gauge") == 1
    assert [value for _, value in parsed(text)["gauge"]["many"]] == [v for _, v in samples]
    assert turns >= 3


async def test_a_family_without_samples_is_named() -> None:
    text = await render([Family("none_total", "Nothing", Kind.COUNTER, [])])
    assert b"# TYPE none_total counter" in text


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


async def test_an_environment_is_collected(registry: CollectorRegistry) -> None:
    async with NetworkEnvironment(worker_id="me") as environment:
        registry.register(FlinknetCollector(environment))
        async with environment.open_reader(environment.address, "numbers") as reader:
            async with environment.open_writer("numbers") as writer:
                await writer.emit(1)
                writer.flush()
                first = await anext(reader)
                found = parsed(generate_latest(registry))
                writer.close()
            assert first == 1
    mine = {"host": "127.0.0.1", "tm_id": "me"}
    segments = found["gauge"]["flink_taskmanager_Status_Shuffle_Netty_TotalMemorySegments"]
    assert segments == [(mine, 2048)]
    [(labels, sent)] = found["counter"]["flinknet_partition_sent_bytes_total"]
    assert (labels, sent > 0) == ({**mine, "partition": "numbers"}, True)
    [(labels, received)] = found["counter"]["flinknet_gate_received_bytes_total"]
    assert (labels["gate"], received) == ("numbers", sent)


async def test_a_scrape_in_another_thread_reads_in_the_loop(registry: CollectorRegistry) -> None:
    async with NetworkEnvironment() as environment:
        registry.register(FlinknetCollector(environment))
        text = await asyncio.to_thread(generate_latest, registry)
    assert b"flinknet_connections{" in text


async def test_a_loop_that_stands_fails_the_scrape(registry: CollectorRegistry) -> None:
    async with NetworkEnvironment() as environment:
        registry.register(FlinknetCollector(environment, timeout_s=0.01))
        with ThreadPoolExecutor(1) as threads:
            scrape = threads.submit(generate_latest, registry)
            with pytest.raises(TimeoutError):
                scrape.result()  # the loop stands while this waits


async def test_an_environment_that_has_ended_has_nothing(registry: CollectorRegistry) -> None:
    async with NetworkEnvironment() as environment:
        registry.register(FlinknetCollector(environment))
    assert generate_latest(registry) == b""


def test_a_loop_that_is_closed_has_nothing(registry: CollectorRegistry) -> None:
    async def register() -> None:
        async with NetworkEnvironment() as environment:
            registry.register(FlinknetCollector(environment))

    asyncio.run(register())
    assert generate_latest(registry) == b""
