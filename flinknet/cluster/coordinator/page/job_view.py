"""A job on the web page: the graph with live rates, and the diagnosis.

Views are plain JSON types. Rates and shares cover the last seconds; a diagnosis covers a longer
time. The graph shows the largest share of each kind among subtasks, as Flink's page does, because
one stuck subtask is enough to block all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from flinknet.cluster.coordinator.jobs.job_record import JobRecord
from flinknet.cluster.coordinator.rest.diagnosis_routes import topology_of
from flinknet.cluster.coordinator.rest.flink.job_view import vertex_id
from flinknet.cluster.coordinator.rest.flink.states import aggregate_state, task_states
from flinknet.diagnosis.diagnosis import Diagnosis
from flinknet.diagnosis.finding import Throughput
from flinknet.diagnosis.reading import TaskReading
from flinknet.diagnosis.topology import Exchange, TaskKey, Topology
from flinknet.metrics.io_metrics import IOMetrics
from flinknet.metrics.plain import to_plain
from flinknet.metrics.task_catalogue import GATE, PARTITION

__all__ = ["diagnosis_view", "job_view"]

Live = Mapping[TaskKey, TaskReading]
"""The reports of subtasks over the last seconds."""


def job_view(record: JobRecord, live: Live, now: float) -> dict[str, Any]:
    """Return the job, its vertices and its edges."""
    shape = record.submission.shape
    topology = topology_of(shape)
    ended_at = now if record.ended_at is None else record.ended_at
    return {
        "id": record.job_id,
        "name": record.submission.name,
        "state": "WAITING FOR SLOTS" if record.is_queued else record.state.value,
        "is_over": record.ended_at is not None,
        "attempt": record.present.number,
        "attempts": len(record.attempts),
        "begun": record.wall_ms(record.submitted_at),
        "seconds": ended_at - record.submitted_at,
        "holders": list(record.execution.holders),
        "vertices": _vertices(record, live),
        "edges": [
            _edge(topology, exchange, edge.exchange_mode.value, live)
            for exchange, edge in zip(topology.exchanges, shape.edges, strict=True)
        ],
    }


def diagnosis_view(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the sentence, and the findings with their evidence."""
    return {
        "verdict": diagnosis.verdict,
        "sentence": diagnosis.sentence,
        "seconds": diagnosis.seconds,
        "findings": [{**to_plain(one), "kind": one.kind.name} for one in diagnosis.findings],
    }


def _vertices(record: JobRecord, live: Live) -> list[dict[str, Any]]:
    states = task_states(record)
    counters = record.present.counters
    rows = []
    for vertex in record.submission.shape.vertices:
        keys = [(vertex.id, index) for index in range(vertex.parallelism)]
        counts = Counter(states[key] for key in keys)
        readings = [live[key] for key in keys if key in live]
        total = IOMetrics.total(counters[key] for key in keys if key in counters)
        rows.append(
            {
                "number": vertex.id,
                "id": vertex_id(vertex),
                "name": vertex.name,
                "parallelism": vertex.parallelism,
                "state": aggregate_state(counts),
                "states": dict(counts),
                "records_in": total.records_in,
                "records_out": total.records_out,
                "bytes_in": total.bytes_in,
                "bytes_out": total.bytes_out,
                "reported": len(readings),
                **_largest_shares(readings),
                **to_plain(Throughput.of(readings)),
            }
        )
    return rows


def _largest_shares(readings: Sequence[TaskReading]) -> dict[str, float]:
    return {
        "busy": max((one.share(one.busy_s) for one in readings), default=0.0),
        "backpressured": max((one.share(one.backpressured_s) for one in readings), default=0.0),
    }


def _edge(topology: Topology, exchange: Exchange, mode: str, live: Live) -> dict[str, Any]:
    """Return the rates of an edge, and the buffers that wait in it."""
    gate = topology.inputs(exchange.target).index(exchange)
    output = topology.outputs(exchange.source).index(exchange)
    readers = [one for (vertex, _), one in live.items() if vertex == exchange.target]
    gates = [one.latest.gates[gate] for one in readers if gate < len(one.latest.gates)]
    partitions = [
        one.latest.partitions[output]
        for (vertex, _), one in live.items()
        if vertex == exchange.source and output < len(one.latest.partitions)
    ]
    return {
        "source": exchange.source,
        "target": exchange.target,
        "name": exchange.name,
        "mode": mode,
        "records_per_s": _records_per_s(topology, exchange, live),
        "bytes_per_s": sum(
            one.per_second(one.gate_bytes[gate]) for one in readers if gate < len(one.gate_bytes)
        ),
        "queued_out": PARTITION["flinknet_partition_queued_buffers"].total(partitions),
        "queued_in": GATE["flinknet_gate_queued_buffers"].total(gates),
        "backlog": GATE["flinknet_gate_backlog"].total(gates),
        "credit": sum(
            one.credit_announced + one.credit_unannounced - one.credit_held for one in gates
        ),
    }


def _records_per_s(topology: Topology, exchange: Exchange, live: Live) -> float | None:
    """Return the rate of an edge, or None if it cannot be determined.

    Records are counted per task. The rate is known only if one end has no other edge.
    """
    if len(topology.inputs(exchange.target)) == 1:
        readers = [one for (vertex, _), one in live.items() if vertex == exchange.target]
        return sum(one.per_second(one.records_in) for one in readers)
    if len(topology.outputs(exchange.source)) == 1:
        writers = [one for (vertex, _), one in live.items() if vertex == exchange.source]
        return sum(one.per_second(one.records_out) for one in writers)
    return None
