"""The plan of a program as JSON, in the shape of Flink's getExecutionPlan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from flinknet.graph.graph_generator import GraphDefaults, all_transformations
from flinknet.graph.transformation import OperatorKind, StreamInput, Transformation

__all__ = ["execution_plan"]

_PACTS = {
    OperatorKind.SOURCE: "Data Source",
    OperatorKind.ONE_INPUT: "Operator",
    OperatorKind.SINK: "Data Sink",
}


def execution_plan(transformations: Sequence[Transformation], defaults: GraphDefaults) -> str:
    """Return the operators, inputs first, and how the records come from one to the next."""
    program = all_transformations(transformations)
    ids = {one: number for number, one in enumerate(program, 1)}

    def predecessor(read: StreamInput, one: Transformation, place: int) -> dict[str, Any]:
        name = "FORWARD" if _same(read, one, defaults) else "REBALANCE"
        first = one.first_inputs
        return {
            "id": ids[read.transformation],
            "ship_strategy": name if read.partitioning is None else read.partitioning.name,
            "side": "first" if first is not None and place < first else "second",
        }

    nodes = []
    for one, number in ids.items():
        node: dict[str, Any] = {
            "id": number,
            "type": one.display_name,
            "pact": _PACTS[one.kind],
            "contents": one.description or one.display_name,
            "parallelism": one.parallelism or defaults.parallelism,
        }
        if one.inputs:
            node["predecessors"] = [
                predecessor(read, one, place) for place, read in enumerate(one.inputs)
            ]
        nodes.append(node)
    return json.dumps({"nodes": nodes}, indent=2)


def _same(read: StreamInput, one: Transformation, defaults: GraphDefaults) -> bool:
    before = read.transformation.parallelism or defaults.parallelism
    return before == (one.parallelism or defaults.parallelism)
