"""The exchanges of a job, in the form of checkpoint metadata."""

from __future__ import annotations

from flinknet.checkpoint.metadata import Exchange
from flinknet.graph.graph import JobGraph

__all__ = ["exchanges_of"]


def exchanges_of(graph: JobGraph) -> tuple[Exchange, ...]:
    """Return the exchange of each edge of a graph, in the order of the edges.

    The functions of the graph are not called.
    """
    partitions = [0] * len(graph.vertices)
    gates = [0] * len(graph.vertices)
    exchanges = []
    for edge in graph.edges:
        senders = graph.vertices[edge.source].operators
        exchanges.append(
            Exchange(
                sender=senders[edge.operator].uid,
                tag=edge.tag,
                sender_head=senders[0].uid,
                partition=partitions[edge.source],
                receiver=graph.vertices[edge.target].operators[0].uid,
                input=edge.input,
                gate=gates[edge.target],
                partitioner=edge.name,
                pointwise=edge.pointwise,
                stamped=edge.stamped,
            )
        )
        partitions[edge.source] += 1
        gates[edge.target] += 1
    return tuple(exchanges)
