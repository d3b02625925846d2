"""The exported totals of an environment are the sums of its statistics."""

from __future__ import annotations

from flinknet.config import MetricsConfig
from flinknet.metrics.turns import Turns
from flinknet.net.network_environment import NetworkEnvironment


async def test_the_totals_are_those_of_the_statistics() -> None:
    async with (
        NetworkEnvironment() as environment,
        environment.open_reader(environment.address, "numbers") as reader,
        environment.open_writer("numbers") as writer,
    ):
        await writer.emit(1)
        writer.flush()
        first = await anext(reader)
        turns = Turns(MetricsConfig(turn_channels=1))
        totals = await turns.go_through(environment.totals(turns))
        seen = environment.statistics()
        writer.close()
    assert first == 1
    [partition], [gate] = totals.partitions, totals.gates
    assert (partition.partition_id, partition.bytes_out) == (
        "numbers",
        seen.partitions[0].bytes_out,
    )
    assert (gate.name, gate.bytes_in_local) == ("numbers", seen.gates[0].bytes_in_local)
    assert partition.bytes_out > 0
    assert totals.network.network_pool == seen.network_pool
    assert totals.topics == seen.topics
