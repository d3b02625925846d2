"""Memory under a consumer that has stopped for good: it stays where the pools put it."""

from __future__ import annotations

import subprocess
import sys

MIB = 1024 * 1024

PRODUCER = """
import asyncio, os, sys
from flinknet import NetworkConfig, NetworkEnvironment

def resident_bytes():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

async def main():
    before = resident_bytes()
    config = NetworkConfig(network_memory_bytes=64 * 1024 * 1024)
    async with NetworkEnvironment(config=config) as environment:
        partition = environment.create_result_partition("p", subpartitions=4)
        writer = environment.create_record_writer(
            partition, __import__("flinknet").RebalancePartitioner()
        )
        print(environment.address, flush=True)
        emitted = 0
        try:
            async with asyncio.timeout(30):
                while True:
                    await writer.emit((emitted, "x" * (emitted % 2000)))
                    emitted += 1
        except TimeoutError:
            pass
        environment.network_pool.check_invariants()
        print(emitted, resident_bytes() - before, flush=True)
        writer.close()

asyncio.run(main())
"""

STOPPED_CONSUMER = """
import asyncio, sys
from flinknet import NetworkEnvironment, PartitionLocation

async def main():
    async with NetworkEnvironment() as environment:
        gate = environment.create_input_gate(
            [PartitionLocation(sys.argv[1], "p", index) for index in range(4)]
        )
        while not all(channel.statistics().queued_buffers for channel in gate.channels):
            await environment.wait(gate.availability)
            await asyncio.sleep(0)
        print("stopped", flush=True)
        await asyncio.get_running_loop().create_future()

asyncio.run(main())
"""


def test_a_stopped_consumer_stops_the_producer_within_its_memory() -> None:
    """A producer that emits for 30 s to a consumer that reads nothing grows by at most the pool and
    16 MiB, and is held back after what the buffers of both sides hold.
    """
    with subprocess.Popen(
        [sys.executable, "-c", PRODUCER], stdout=subprocess.PIPE, text=True
    ) as producer:
        assert producer.stdout is not None
        address = producer.stdout.readline().strip()
        with subprocess.Popen(
            [sys.executable, "-c", STOPPED_CONSUMER, address],
            stdout=subprocess.PIPE,
            text=True,
        ) as consumer:
            try:
                assert consumer.stdout is not None
                assert consumer.stdout.readline() == "stopped\n"
                emitted, growth = map(int, producer.stdout.readline().split())
            finally:
                consumer.kill()
        producer.wait(timeout=30)
    print(f"{emitted} records emitted, resident memory grew by {growth / MIB:.1f} MiB")
    assert producer.returncode == 0
    assert growth <= 64 * MIB + 16 * MIB
    assert emitted < 20_000, "the producer was not held back"
