"""A siege: a crowd of attackers around a cluster for the duration of a block."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from bench.attackers.crowd import Orders
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.credentials import cluster_id, data_plane_secret
from flinknet.cluster.launch.local.local_cluster import LocalCluster
from flinknet.config import FlinknetConfig
from flinknet.net.peers import PeerDirectory
from flinknet.net.tls import tls_of
from flinknet.partition.registry import PartitionRegistry
from flinknet.wire.handshake_messages import WorkerIdentity

__all__ = ["besieged", "join", "worker_addresses"]

ROOT = Path(__file__).parents[2]


async def worker_addresses(cluster: LocalCluster, config: FlinknetConfig) -> list[str]:
    """Return the addresses of a cluster's workers."""
    client = CoordinatorClient(cluster.address, cluster.token, config.cluster)
    workers = (await client.read("/api/v1/workers"))["workers"]
    return [worker["address"] for worker in workers]


@asynccontextmanager
async def besieged(
    cluster: LocalCluster,
    config: FlinknetConfig,
    kinds: Mapping[str, int],
    foreign: Sequence[Path] | None = None,
) -> AsyncIterator[dict[str, int]]:
    """Attack a cluster with the given number of attackers of each kind.

    The siege lasts until the block ends. Yields a dictionary that then gets the number of ended
    attacks by kind. ``foreign`` are certificate and private key of another authority, if the
    cluster has TLS.
    """
    tls = config.cluster.tls
    orders = Orders(
        workers=await worker_addresses(cluster, config),
        coordinator=cluster.address,
        kinds=dict(kinds),
        job=cluster_id(cluster.token),
        segment_bytes=config.network.segment_bytes,
        secret=data_plane_secret(cluster.token).hex(),
        own=[tls.certificate, tls.private_key] if tls.is_on else None,
        foreign=None if foreign is None else [*map(str, foreign)],
    )
    ends: dict[str, int] = {}
    crowd = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bench.attackers.crowd"),
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert crowd.stdin is not None
    try:
        crowd.stdin.write(json.dumps(orders._asdict()).encode() + b"\n")
        yield ends
        crowd.stdin.close()
        said, _ = await crowd.communicate()
        ends.update(json.loads(said))
    finally:
        with suppress(ProcessLookupError):
            crowd.kill()
        await crowd.wait()


async def join(cluster: LocalCluster, config: FlinknetConfig) -> float:
    """Connect as a joining worker, and return the seconds that it took.

    It reads the workers from the coordinator and connects to each.
    """
    loop = asyncio.get_running_loop()
    mine = WorkerIdentity(
        "worker-joins", "", cluster_id(cluster.token), 0, config.network.segment_bytes
    )
    peers = PeerDirectory(
        mine,
        PartitionRegistry(config.network.rendezvous_timeout_ms / 1000),
        config.network,
        loop,
        data_plane_secret(cluster.token),
        tls_of(config.cluster.tls),
    )
    try:
        began = loop.time()
        addresses = await worker_addresses(cluster, config)
        await asyncio.gather(*map(peers.connect, addresses))
        return loop.time() - began
    finally:
        await peers.close()
