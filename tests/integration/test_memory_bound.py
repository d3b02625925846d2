"""The memory bound that a worker computes, compared with real processes under the worst load.

Growth is the peak of resident memory minus its value before the worker's environment was entered.
The process has exchanged a first record in other environments by then.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinknet.cluster.launch.job_memory import JobMemory
from flinknet.cluster.launch.local.local_cluster import LocalCluster
from flinknet.compiled_modules import COMPILED
from flinknet.config import FlinknetConfig, WireLimits
from flinknet.connection.handshake import Handshake
from flinknet.datastream import GeneratorSource, StreamExecutionEnvironment
from flinknet.graph.graph import JobGraph
from flinknet.partition.registry import wire_partition_id
from flinknet.wire.codec import encode
from flinknet.wire.handshake_messages import WorkerIdentity
from flinknet.wire.messages import MessageType
from tests.integration.exchange_programs import status_bytes

ROOT = Path(__file__).parents[2]
KIB = 1024
MIB = 1024 * KIB
SLACK_BYTES = 16 * MIB
"""Slack for the interpreter and the allocator."""

SMALL: dict[str, Any] = {
    "segment_bytes": 16 * KIB,
    "network_memory_bytes": 32 * MIB,
    "record_bytes_max": MIB,
    "record_elements_max": 16 * KIB,
    "record_spill_bytes": MIB,
    "reassembly_memory_bytes": MIB,
    "wire": {
        "events_per_channel_max": 8,
        "control_bytes_max": MIB,
        "channels_per_connection_max": 10_000,
    },
}
"""Low limits where the test does not reach them, so that the bound is low, too."""


every_loop = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])


class Worker:
    """A program of ``exchange_programs.py`` in its process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def hear(self) -> dict[str, Any]:
        """Return the next report of the program."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the worker ended without a word"
        said: dict[str, Any] = json.loads(line)
        return said

    def tell(self) -> None:
        """Let the program continue."""
        assert self._process.stdin is not None
        self._process.stdin.write("go on\n")
        self._process.stdin.flush()


@contextmanager
def worker(program: str, loop: str = "uvloop", **options: Any) -> Iterator[Worker]:
    """Start a program, and kill it on exit."""
    module = "tests.integration.exchange_programs"
    with subprocess.Popen(
        [sys.executable, "-m", module, loop, program, json.dumps(options)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Worker(process)
        finally:
            process.kill()


def assert_within_bound(report: dict[str, Any], bound: int | None = None) -> None:
    """Check that the growth is below the bound, and includes the network buffers in use."""
    bound = report["bound"] if bound is None else bound
    print(
        f"grew by {report['growth'] / MIB:.1f} MiB, of which {report['in_use'] / MIB:.1f} MiB are "
        f"network buffers; the bound is {bound / MIB:.1f} MiB"
    )
    assert report["in_use"] <= report["growth"] <= bound + SLACK_BYTES


@every_loop
def test_a_stopped_consumer_stops_the_producer_within_its_memory(loop: str) -> None:
    """Pools are as large as the network memory on both sides, and all buffers are full."""
    config = {
        **SMALL,
        "buffers_per_channel": 200,
        "floating_buffers_per_gate": 1000,
        "buffers_per_subpartition_max": 1000,
    }
    with worker(
        "emit_until_held_back", loop, config=config, subpartitions=4, record_bytes=1000
    ) as producer:
        address = producer.hear()["address"]
        with worker("stop_when_full", loop, config=config, address=address, channels=4) as consumer:
            consumed = consumer.hear()
            producer.tell()
            produced = producer.hear()
    for report in (consumed, produced):
        assert_within_bound(report)
        assert report["in_use"] >= 8 * MIB
    assert produced["emitted"] < 100_000, "the producer was not held back"


@every_loop
def test_a_thousand_channels_stay_within_the_bound(loop: str) -> None:
    """All channels carry data to a consumer that has stopped."""
    config = {**SMALL, "segment_bytes": 4 * KIB, "outbox_bytes_max": 64 * KIB}
    with worker(
        "emit_until_held_back", loop, config=config, subpartitions=1000, record_bytes=1000
    ) as producer:
        address = producer.hear()["address"]
        with worker(
            "stop_when_full", loop, config=config, address=address, channels=1000
        ) as consumer:
            consumed = consumer.hear()
            producer.tell()
            produced = producer.hear()
    for report in (consumed, produced):
        assert_within_bound(report)
        assert report["in_use"] >= 1000 * 2 * 4 * KIB


def test_long_records_on_many_channels_stay_within_the_bound() -> None:
    """48 records of 4 MiB are reassembled at a time, with 8 MiB of memory for that."""
    channels, records, record_bytes = 48, 2, 4 * MIB
    config = {
        **SMALL,
        "network_memory_bytes": 8 * MIB,
        "record_bytes_max": record_bytes + 64,
        "record_spill_bytes": record_bytes + 64,
        "reassembly_memory_bytes": 8 * MIB,
    }
    with worker(
        "write_long_records",
        config=config,
        channels=channels,
        records=records,
        record_bytes=record_bytes,
    ) as producer:
        address = producer.hear()["address"]
        with worker(
            "read_long_records", config=config, address=address, channels=channels
        ) as consumer:
            consumed = consumer.hear()
        produced = producer.hear()
    assert consumed["records"] == channels * records
    assert consumed["size"] == channels * records * record_bytes
    assert consumed["spilled"] > 0
    assert_within_bound(consumed)
    assert_within_bound(produced)
    assert consumed["bound"] + SLACK_BYTES < channels * record_bytes, "it would not be exceeded"


@every_loop
def test_a_peer_that_never_reads_stays_within_the_bound(loop: str) -> None:
    """The peer requests everything with much credit, and then subpartitions that do not exist.

    An answer to each of these requests is queued for it, until it is cut off.
    """
    subpartitions = 64
    with worker(
        "emit_until_held_back", loop, config=SMALL, subpartitions=subpartitions, record_bytes=1000
    ) as producer:
        address = producer.hear()["address"]
        with socket.socket() as peer:
            shake_hands(peer, address)
            for channel in range(subpartitions):
                peer.sendall(request(channel, channel, credit=60_000))
            producer.tell()
            held_back = producer.hear()
            flood(peer, subpartitions)
            in_the_end = producer.hear()
    assert_within_bound(held_back)
    assert_within_bound(in_the_end, held_back["bound"])
    assert held_back["emitted"] < 100_000, "the producer was not held back"
    assert "control_bytes_max" in in_the_end["failure"], "the peer was not cut off"


def shake_hands(peer: socket.socket, address: str) -> None:
    """Connect and shake hands, and read no byte beyond that."""
    host, _, port = address.rpartition(":")
    # A small window, set before the connection, fills soon.
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)
    peer.connect((host, int(port)))
    identity = WorkerIdentity("deaf", "127.0.0.1:9", "embedded", 0, SMALL["segment_bytes"])
    handshake = Handshake(
        identity, dials=True, secret=b"", nonce=bytes(16), limits=WireLimits(), now=0.0
    )
    peer.sendall(handshake.start())
    while handshake.state.is_open:
        peer.sendall(handshake.received(peer.recv(1)))
    assert handshake.agreed, handshake.error


def request(channel: int, subpartition: int, *, credit: int) -> bytes:
    return encode(
        MessageType.PARTITION_REQUEST, channel, wire_partition_id("p"), subpartition, credit
    )


def flood(peer: socket.socket, first_channel: int) -> None:
    """Request subpartitions that do not exist; each request needs an error as its answer."""
    with suppress(ConnectionError):
        for channel in range(first_channel, SMALL["wire"]["channels_per_connection_max"]):
            peer.sendall(request(channel, 1_000_000, credit=1))


# -- jobs ------------------------------------------------------------------------------------------


def keyed_job(parallelism: int) -> JobGraph:
    """Return a job with two all-to-all exchanges, and more records than their buffers hold."""
    environment = StreamExecutionEnvironment().set_parallelism(parallelism)
    source = GeneratorSource(lambda number: (number % 997, "x" * 200), count=60_000)
    first = environment.from_source(source).key_by(lambda record: record[0])
    second = first.map(lambda record: (record[0] + 1, record[1])).key_by(lambda record: record[0])
    second.reduce(lambda _, record: record).sink_to(lambda record: None)
    return environment.job_graph("keyed")


@pytest.mark.parametrize(("parallelism", "workers"), [(2, 1), (24, 2)])
async def test_real_jobs_take_the_expected_memory_and_no_more_than_the_bound(
    parallelism: int, workers: int
) -> None:
    """Workers grow as expected beyond the network memory.

    A compiled worker fills the network memory at its start, and plain Python during a job.
    """
    graph, config = keyed_job(parallelism), FlinknetConfig()
    slots = -(-parallelism // workers)
    cluster_config = replace(config.cluster, workers=workers, slots_per_worker=slots)
    config = replace(config, cluster=cluster_config)
    async with LocalCluster(config) as cluster:
        pids = {name: pid for name, pid in cluster.pids().items() if name != "coordinator"}
        before = {name: status_bytes("VmRSS", pid) for name, pid in pids.items()}
        await cluster.execute(graph)
        peaks = {name: status_bytes("VmHWM", pid) for name, pid in pids.items()}
    memory = JobMemory.of_graph(graph, config)
    network = config.network.network_memory_bytes
    touched = 0 if COMPILED else network
    for name, expected in memory.expected().items():
        grown, more = peaks[name] - before[name], expected.total - network
        most = memory.bounds()[name].total
        print(f"{name} grew by {grown / MIB:.1f} MiB, {more / MIB:.1f} MiB were expected")
        assert not COMPILED or before[name] > network, "it is allocated at the start"
        assert more <= grown <= most - network + touched
        assert grown <= 4 * more + SLACK_BYTES + touched, "what is expected is of use"
