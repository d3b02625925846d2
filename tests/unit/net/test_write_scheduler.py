"""When a connection writes: at the end of a turn, or at once."""

from __future__ import annotations

import asyncio

from flinknet.net.network_environment import NetworkEnvironment
from flinknet.partition.registry import wire_partition_id
from flinknet.wire.messages import MessageType
from tests.unit.net.stranger import (
    Stranger,
    assert_nothing_is_held,
    quick,
    until,
)
from tests.unit.wire.received import partition_request

M = MessageType
P = wire_partition_id("p")


async def test_urgent_output_is_written_at_once_unless_there_are_many() -> None:
    """The first record of a turn is sent inside its ``emit``, the others together at the end of the
    turn. After a turn with several records, none is sent before the end of the next."""
    async with NetworkEnvironment(config=quick()) as environment:
        partition = environment.create_result_partition("p", subpartitions=1)
        writer = environment.create_record_writer(partition, buffer_timeout_ms=0)

        async def sent_by_emits(number: int) -> list[int]:
            [connection] = environment.statistics().connections
            before, sent = connection.buffers_out, []
            for value in range(number):
                await writer.emit(value)
                [connection] = environment.statistics().connections
                sent.append(connection.buffers_out - before)
            await asyncio.sleep(0)
            return sent

        async with Stranger.meet(environment) as stranger:
            stranger.send(partition_request(0, P, credit=100))
            await until(lambda: bool(environment.statistics().connections[0].readers))
            assert await sent_by_emits(1) == [1]
            assert await sent_by_emits(3) == [1, 1, 1]
            assert await sent_by_emits(1) == [0]
            assert await sent_by_emits(1) == [1]
            assert len(await stranger.read_messages(5)) == 5
            writer.close()
        await assert_nothing_is_held(environment)
