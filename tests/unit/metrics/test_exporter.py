"""Text that Prometheus reads, and the collector of a program that embeds an environment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from flinknet.compiled_modules import IMPLEMENTATION
from flinknet.config import MetricsConfig
from flinknet.metrics.catalogue import worker_families
from flinknet.metrics.exporter import FlinknetCollector, render
from flinknet.metrics.registry import Family, Kind
from flinknet.metrics.turns import Turns
from flinknet.net.network_environment import NetworkEnvironment
from tests.unit.metrics.samples import worker

LABELS = {"host": "127.0.0.1", "tm_id": "worker-0"}


async def whole(families: Iterable[Family], config: MetricsConfig | None = None) -> bytes:
    return b"".join([piece async for piece in render(families, Turns(config))])


def parsed(text: bytes) -> dict[str, dict[str, list[tuple[dict[str, str], float]]]]:
    """Return samples by name, by the type of their family."""
    found: dict[str, dict[str, list[tuple[dict[str, str], float]]]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            by_name = found.setdefault(family.type, {})
            by_name.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


async def test_a_workers_families_become_text() -> None:
    text = await whole(worker_families(LABELS, worker(subtasks=2)))
    found = parsed(text)
    received = found["gauge"]["flink_taskmanager_job_task_numRecordsIn"]
    assert [(labels["subtask_index"], value) for labels, value in received] == [("0", 1), ("1", 1)]
    assert found["counter"]["flinknet_connections_lost_total"] == [(LABELS, 1)]
    assert b"flink_taskmanager_job_task_numRecordsIn_total" not in text
    assert found["counter"]["process_cpu_seconds_total"][0][1] > 0


ODD = [
    Family(
        "odd_total", 'Ends with "quotes"', Kind.COUNTER, [({"b": 'a\\b"c\nd', "a": "ä €"}, 1e21)]
    ),
    Family(
        "took", "A summary", Kind.SUMMARY, [({"a": "b", "quantile": "0.5"}, 7)], [({"a": "b"}, 3)]
    ),
    Family("plain", "No labels", Kind.GAUGE, [({}, 0.1), ({}, float("inf")), ({}, True)]),
]


class Registered(Collector):
    """Metric families as the library gets them."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            name = family.name.removesuffix("_total")
            metric = Metric(name, family.help, family.kind.value)
            for labels, value in family.samples:
                metric.add_sample(family.name, labels, value)
            for labels, value in family.counts:
                metric.add_sample(f"{family.name}_count", labels, value)
            yield metric


@pytest.mark.parametrize(
    "families", [ODD, list(worker_families(LABELS, worker(subtasks=3, connections=2)))]
)
async def test_the_text_is_what_the_library_makes_of_the_same(families: list[Family]) -> None:
    expected = generate_latest(Registered(families))
    assert (await whole(families)).startswith(expected)


async def test_the_loop_turns_while_text_is_made() -> None:
    short = MetricsConfig(turn_ms=1e-6)
    samples = [({"number": str(number)}, float(number)) for number in range(10)]
    rendering = asyncio.create_task(whole([Family("many", "Numbers", Kind.GAUGE, samples)], short))
    turns = 0
    while not rendering.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 10


async def test_a_family_without_samples_is_named() -> None:
    text = await whole([Family("none_total", "Nothing", Kind.COUNTER, [])])
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
    assert segments == [(mine, 2032)]
    [(labels, one)] = found["gauge"]["flinknet_build_info"]
    assert (labels["tm_id"], labels["implementation"], one) == ("me", IMPLEMENTATION, 1)
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
                scrape.result()  # the loop stands still while this waits


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
