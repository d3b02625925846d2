"""Programs that are one worker of an exchange each, in a process of their own.

``python -m tests.integration.exchange_programs LOOP PROGRAM OPTIONS`` takes the options as JSON.
Among them, ``config`` has fields of ``NetworkConfig``. A program prints its reports as JSON, one
object per line, and continues at a line on its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from flinknet import NetworkConfig, NetworkEnvironment, PartitionLocation, RebalancePartitioner
from flinknet.config import WireLimits
from flinknet.errors import FlinknetError
from flinknet.records.writer import RecordWriter

STILL_TURNS = 2_000
"""Loop turns without progress after which a worker counts as held back."""


# -- reports ---------------------------------------------------------------------------------------


class Memory:
    """Growth of this process's resident memory and the memory bound, each at its peak."""

    def __init__(self) -> None:
        self._bound = 0
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak (VmHWM) to the present value
        self._before = status_bytes("VmRSS")

    def note_bound(self, environment: NetworkEnvironment) -> None:
        """Update the peak of the bound."""
        self._bound = max(self._bound, environment.memory_bound().total)

    def report(self, environment: NetworkEnvironment) -> dict[str, int]:
        """Return the bytes of the growth, of the bound, and of the network buffers in use."""
        pool = environment.network_pool.statistics()
        return {
            "growth": status_bytes("VmHWM") - self._before,
            "bound": self._bound,
            "in_use": (pool.total - pool.free) * pool.segment_bytes,
        }


def status_bytes(name: str, pid: int | str = "self") -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    raise AssertionError(f"/proc/{pid}/status has no {name}")


def say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


async def told() -> None:
    """Wait for a line on standard input."""
    await asyncio.to_thread(sys.stdin.readline)


async def until_still(count: Callable[[], int]) -> None:
    """Let the loop turn until the count stays the same."""
    still, last = 0, count()
    while still < STILL_TURNS:
        await asyncio.sleep(0)
        still = still + 1 if count() == last else 0
        last = count()


async def warm_up() -> None:
    """Exchange a record with another environment, so that one-time allocations are made."""
    config = NetworkConfig(network_memory_bytes=1024 * 1024)
    record = "x" * 100_000
    async with (
        NetworkEnvironment(config=config) as producer,
        NetworkEnvironment(config=config) as consumer,
    ):

        async def write() -> None:
            async with producer.open_writer("warm up") as writer:
                await writer.emit(record)

        async with asyncio.TaskGroup() as group:
            group.create_task(write())
            async with consumer.open_reader(producer.address, "warm up") as reader:
                assert [received async for received in reader] == [record]


# -- the programs ----------------------------------------------------------------------------------


async def emit_until_held_back(
    environment: NetworkEnvironment, memory: Memory, *, subpartitions: int, record_bytes: int
) -> None:
    """Emit to stopped consumers until the writer is held back; then wait until they are lost."""
    partition = environment.create_result_partition("p", subpartitions=subpartitions)
    writer = environment.create_record_writer(partition, RebalancePartitioner())
    emitted = 0

    async def emit() -> str:
        nonlocal emitted
        try:
            while True:
                await writer.emit((emitted, "x" * (emitted % (2 * record_bytes))))
                emitted += 1
        except FlinknetError as error:
            return str(error)

    say(address=environment.address)
    emitting = asyncio.create_task(emit())
    await told()
    await until_still(lambda: emitted)
    environment.network_pool.check_invariants()
    memory.note_bound(environment)
    say(emitted=emitted, **memory.report(environment))
    say(failure=await emitting, **memory.report(environment))
    writer.close()


async def stop_when_full(
    environment: NetworkEnvironment, memory: Memory, *, address: str, channels: int
) -> None:
    """Consume nothing until every channel's own buffers are full and the floating pool is empty.

    A producer that is held back may have no data for the other floating buffers of a channel.
    """
    gate = environment.create_input_gate(
        [PartitionLocation(address, "p", index) for index in range(channels)]
    )

    def is_full() -> bool:
        statistics = gate.statistics()
        return not statistics.floating_pool.idle and all(
            channel.queued_buffers >= max(1, channel.exclusive_total)
            for channel in statistics.channels
        )

    while not is_full():
        await asyncio.sleep(0)
    environment.network_pool.check_invariants()
    memory.note_bound(environment)
    say(**memory.report(environment))
    await told()


async def write_long_records(
    environment: NetworkEnvironment,
    memory: Memory,
    *,
    channels: int,
    records: int,
    record_bytes: int,
) -> None:
    """Write long records to several partitions concurrently."""
    writers = [
        environment.create_record_writer(
            environment.create_result_partition(f"long {number}", subpartitions=1)
        )
        for number in range(channels)
    ]
    record = bytes(record_bytes)

    async def write(writer: RecordWriter) -> None:
        for _ in range(records):
            await writer.emit(record)
            memory.note_bound(environment)
        await writer.finish()

    say(address=environment.address)
    async with asyncio.TaskGroup() as group:
        for writer in writers:
            group.create_task(write(writer))
    say(**memory.report(environment))


async def read_long_records(
    environment: NetworkEnvironment, memory: Memory, *, address: str, channels: int
) -> None:
    """Read everything from ``write_long_records``."""
    reader = environment.create_record_reader(
        environment.create_input_gate(
            [PartitionLocation(address, f"long {number}", 0) for number in range(channels)]
        )
    )
    records = size = 0
    async for record in reader:
        records += 1
        size += len(record)
        memory.note_bound(environment)
    spilled = environment.statistics().reassembly.records_spilled_before
    say(records=records, size=size, spilled=spilled, **memory.report(environment))
    reader.close()


PROGRAMS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    program.__name__: program
    for program in (emit_until_held_back, stop_when_full, write_long_records, read_long_records)
}


async def main(name: str, *, config: dict[str, Any], **options: Any) -> None:
    limits = WireLimits(**config.pop("wire", {}))
    await warm_up()
    memory = Memory()
    async with NetworkEnvironment(config=NetworkConfig(**config, wire=limits)) as environment:
        await PROGRAMS[name](environment, memory, **options)


if __name__ == "__main__":
    loops = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
    with asyncio.Runner(loop_factory=loops[sys.argv[1]]) as runner:
        runner.run(main(sys.argv[2], **json.loads(sys.argv[3])))
