"""Gates whose producers find their places late, and gates that are read as one."""

from __future__ import annotations

import asyncio

import pytest

from flinknet.config import BufferDebloatConfig
from flinknet.consumer.input_channel import PartitionLocation, UnknownLocation
from flinknet.consumer.union_input_gate import UnionInputGate
from flinknet.errors import (
    ClosedResourceError,
    ConfigurationError,
    LocalProtocolError,
    PartitionRequestTimeoutError,
    ProducerFailedError,
)
from flinknet.net.environment import NetworkEnvironment
from tests.unit.net.stranger import assert_nothing_is_held, quick, until


async def produce(environment: NetworkEnvironment, name: str, records: list[int]) -> None:
    async with environment.open_writer(name) as writer:
        await writer.emit_many(records)


# -- unknown channels ------------------------------------------------------------------------------


async def test_channels_that_become_local_and_remote_deliver() -> None:
    """I3, I11, I13: reading begins with what is known; names may change."""
    async with (
        NetworkEnvironment(config=quick()) as here,
        NetworkEnvironment(config=quick()) as there,
    ):
        gate = here.create_input_gate(
            [
                UnknownLocation("a", 0),
                PartitionLocation(there.address, "b", 0),
                UnknownLocation("c", 0),
            ]
        )
        reader = here.create_record_reader(gate)
        producing = [
            asyncio.create_task(produce(environment, name, [number]))
            for number, (environment, name) in enumerate(
                [(there, "a, again"), (there, "b"), (here, "c")]
            )
        ]
        first = await anext(aiter(reader))
        assert first == 1
        here.update_input_channel(gate, 0, PartitionLocation(there.address, "a, again", 0))
        here.update_input_channel(gate, 2, PartitionLocation(here.address, "c", 0))
        assert sorted([record async for record in reader]) == [0, 2]
        await asyncio.gather(*producing)
        reader.close()
        assert len(here.statistics().connections) == 1
        await assert_nothing_is_held(here)
        await assert_nothing_is_held(there)


async def test_an_update_that_cannot_be_is_refused_and_changes_nothing() -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        unknown = UnknownLocation("p", 0)
        gate = environment.create_input_gate([unknown])
        location = PartitionLocation(environment.address, "p", 0)
        with pytest.raises(ConfigurationError):
            environment.update_input_channel(gate, 0, location._replace(address="nowhere"))
        assert gate.statistics().channels[0].location == unknown
        environment.update_input_channel(gate, 0, location)
        with pytest.raises(LocalProtocolError, match="known already"):
            environment.update_input_channel(gate, 0, location)
        gate.release()
        with pytest.raises(ClosedResourceError):
            environment.update_input_channel(gate, 0, location)
        await assert_nothing_is_held(environment)


async def test_a_placed_producer_that_is_not_there_fails_the_gate() -> None:
    """I5."""
    config = quick(partition_request_timeout_ms=1.0)
    async with NetworkEnvironment(config=config) as environment:
        gate = environment.create_input_gate([UnknownLocation("p", 0)])
        reader = environment.create_record_reader(gate)
        environment.update_input_channel(gate, 0, PartitionLocation(environment.address, "p", 0))
        with pytest.raises(PartitionRequestTimeoutError):
            await reader.next_batch()
        reader.close()


async def test_a_gate_that_still_waits_for_places_is_closed_with_the_environment() -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        gate = environment.create_input_gate([UnknownLocation("p", 0)])
    assert gate.released


# -- the union of gates ----------------------------------------------------------------------------


async def test_gates_can_be_read_as_one() -> None:
    """I13: local and remote ones; a batch says the channel, counted over all gates."""
    async with (
        NetworkEnvironment(config=quick()) as here,
        NetworkEnvironment(config=quick()) as there,
    ):
        sources = [(there, "a"), (here, "b"), (there, "c")]
        locations = [PartitionLocation(side.address, name, 0) for side, name in sources]
        gates = [here.create_input_gate(locations[:2]), here.create_input_gate(locations[2:])]
        reader = here.create_record_reader(UnionInputGate(gates))
        producing = [
            asyncio.create_task(produce(side, name, [10 * number, 10 * number + 1]))
            for number, (side, name) in enumerate(sources)
        ]
        seen: dict[int, list[int]] = {}
        async for batch in reader.batches():
            seen.setdefault(batch.channel, []).extend(batch)
        assert seen == {0: [0, 1], 1: [10, 11], 2: [20, 21]}
        await asyncio.gather(*producing)
        reader.close()
        await assert_nothing_is_held(here)


async def test_a_failed_producer_of_one_gate_fails_the_union() -> None:
    async with NetworkEnvironment(config=quick()) as environment:
        gates = [
            environment.create_input_gate([PartitionLocation(environment.address, name, 0)])
            for name in ("a", "b")
        ]
        reader = environment.create_record_reader(UnionInputGate(gates))
        environment.create_result_partition("b", subpartitions=1).fail(ValueError("first cause"))
        with pytest.raises(ProducerFailedError, match="first cause"):
            await reader.next_batch()
        reader.close()
        await assert_nothing_is_held(environment)


# -- debloating ------------------------------------------------------------------------------------


async def test_the_environment_debloats_its_gates() -> None:
    """Census 1.8: its own timer, its own clock; how the size changes is tested elsewhere."""
    debloat = BufferDebloatConfig(
        enabled=True, period_ms=0.1, samples=1, segment_bytes_min=16, target_ms=1e-6
    )
    async with NetworkEnvironment(config=quick(debloat=debloat)) as environment:
        partition = environment.create_result_partition("p", subpartitions=1)
        writer = environment.create_record_writer(partition)
        gate = environment.create_input_gate([PartitionLocation(environment.address, "p", 0)])
        reader = environment.create_record_reader(gate)
        await writer.emit(1)
        assert await reader.next_batch() is not None
        await until(lambda: partition.subpartitions[0].buffer_bytes == 16)
        reader.close()
        writer.close()
