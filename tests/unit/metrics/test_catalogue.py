"""All metrics of a worker: each is exported once, by a name of its kind."""

from __future__ import annotations

from collections import Counter

from flinknet.consumer.debloating import BufferDebloaterStatistics
from flinknet.metrics.catalogue import WORKER_CATALOGUES, environment_families, worker_families
from flinknet.metrics.environment_statistics import TopicStatistics
from flinknet.metrics.environment_totals import EnvironmentTotals
from flinknet.metrics.garbage_totals import GarbageTotals, GenerationTotals
from flinknet.metrics.latency_statistics import LatencyStatistics
from flinknet.metrics.operator_totals import OperatorTotals
from flinknet.metrics.registry import Kind, prometheus_name
from flinknet.metrics.worker_statistics import WorkerStatistics
from flinknet.wire.events import LatencyMarker
from tests.unit.metrics.samples import channel, channel_rows, gate, network, subtask, worker

LABELS = {"host": "127.0.0.1", "tm_id": "worker-0"}
OF_ITS_PROCESS = {"Processes", "Builds"}
OF_A_PROGRAM = {"Topics"}


def busy_worker() -> WorkerStatistics:
    """Return a worker with a number for every metric."""
    latencies = LatencyStatistics("map")
    latencies.take(LatencyMarker(0, "numbers", 5), 7)
    debloated = gate(channel(0), debloating=BufferDebloaterStatistics(4_096, 12.5))
    busy = subtask(
        gates=(debloated._replace(time_to_consume_ms=7.0),),
        input_watermark=7,
        operators=(OperatorTotals("Map", "map", 1, 2, 3, 4, 5),),
        latencies=latencies.histograms(),
    )
    [row] = channel_rows(channel(0))
    return worker()._replace(
        subtasks=(busy,),
        channels=(row._replace(time_to_consume_ms=1.0),),
        garbage=GarbageTotals((GenerationTotals(0, 7, 0.25, 70),)),
    )


def test_a_worker_exports_every_metric_once_by_a_name_of_its_kind() -> None:
    families = list(worker_families(LABELS, busy_worker()))
    assert set(Counter(family.name for family in families).values()) == {1}
    kinds = {family.name: family.kind for family in families}
    for catalogue in WORKER_CATALOGUES:
        if catalogue.title not in OF_ITS_PROCESS | OF_A_PROGRAM:
            for metric in catalogue.metrics:
                name = prometheus_name(metric, catalogue.scope).replace("COLLECTOR", "generation0")
                if metric.kind is Kind.SUMMARY:
                    [name] = [one for one in kinds if one.endswith("_latency")]
                assert name in kinds, f"{name} is not exported"
                assert (kinds[name] is Kind.COUNTER) == name.endswith("_total"), name


def test_an_own_metric_is_a_counter_if_its_name_says_so() -> None:
    own = [one for catalogue in WORKER_CATALOGUES for one in catalogue.metrics if one.is_own]
    assert own
    for metric in own:
        assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total"), metric.name


def test_samples_have_the_labels_that_their_catalogue_names() -> None:
    labels = {
        family.name: set(family.samples[0][0])
        for family in worker_families(LABELS, busy_worker())
        if family.kind is not Kind.SUMMARY
    }
    for catalogue in WORKER_CATALOGUES:
        for metric in catalogue.metrics:
            found = labels.get(prometheus_name(metric, catalogue.scope))
            assert found in (None, set(catalogue.labels)), metric.name


def test_an_embedded_environment_exports_its_network_exchange_and_topics() -> None:
    task = subtask()
    totals = EnvironmentTotals(
        network=network(),
        partitions=task.partitions,
        gates=task.gates,
        topics=(TopicStatistics("ticks", 2, 30, 5, 1, 2, 400),),
    )
    found = {family.name: family.samples for family in environment_families(LABELS, totals)}
    assert found["flinknet_connections"] == [(LABELS, 1)]
    assert found["flinknet_gate_channels"] == [({**LABELS, "gate": "gate"}, 2)]
    assert found["flinknet_partition_queued_buffers"] == [({**LABELS, "partition": "numbers"}, 2)]
    assert found["flinknet_topic_readers"] == [({**LABELS, "topic": "ticks"}, 2)]
