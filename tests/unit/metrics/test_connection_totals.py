"""Sums over the readers of a connection, read at once or over several turns."""

from __future__ import annotations

from flinknet.config import MetricsConfig
from flinknet.metrics.connection_totals import ConnectionTotals
from flinknet.metrics.turns import Turns
from tests.unit.arrangements import put
from tests.unit.connection.joined import Joined


def test_readers_are_summed_up_and_left_out() -> None:
    joined = Joined()
    partition = joined.producer.make_partition(subpartitions=5)
    gates = [joined.consumer.make_gate(joined.produced(index)) for index in range(5)]
    joined.pump()
    for index in range(5):
        put(partition, index, b"x")
    partition.seal_all()
    link = joined.producer.link
    turns = Turns(MetricsConfig(turn_channels=2), lambda: 0.0)
    totals = turns.at_once(ConnectionTotals.reading(link, turns))
    whole = link.statistics()
    assert (totals.readers, totals.credit, totals.backlog) == (5, whole.credit, whole.backlog)
    assert totals.credit > 0
    assert totals.backlog == 5
    assert totals.connection == whole._replace(readers=())
    for gate in gates:
        gate.release()
    joined.close()


def test_a_reader_that_is_cancelled_between_two_parts_has_nothing_waiting() -> None:
    joined = Joined()
    partition = joined.producer.make_partition(subpartitions=2)
    first, second = (joined.consumer.make_gate(joined.produced(index)) for index in range(2))
    joined.pump()
    put(partition, 1, b"x")
    partition.seal_all()
    turns = Turns(MetricsConfig(turn_channels=1), lambda: 0.0)
    reading = ConnectionTotals.reading(joined.producer.link, turns)
    next(reading)
    second.release()
    joined.pump()
    totals = turns.at_once(reading)
    assert (totals.readers, totals.backlog) == (2, 0)
    first.release()
    joined.close()
