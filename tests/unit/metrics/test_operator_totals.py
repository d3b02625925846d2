"""The counters of an operator, with and without rates."""

from __future__ import annotations

from flinknet.metrics.operator_totals import OperatorTotals


def test_rates_are_those_of_its_counters() -> None:
    operator = OperatorTotals("Map", "map", 10, 20)
    assert operator.counts() == (10, 20)
    rated = operator.rated(1.5, 2.5)
    assert (rated.records_in_per_second, rated.records_out_per_second) == (1.5, 2.5)
    assert rated.counts() == operator.counts()
