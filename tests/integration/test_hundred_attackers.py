"""A hundred hostile clients at every port beside one good job, with TLS and with the secret alone.

The attackers are those of ``bench/attackers``, in a process of their own. Each connects again as
soon as its connection has ended.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from bench.attackers.crowd import KINDS, SECURE_KINDS
from bench.attackers.siege import besieged, join
from flinknet.cluster import LocalCluster
from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.launch.job_memory import JobMemory
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig, TlsConfig, WireLimits
from flinknet.datastream import (
    CollectSink,
    GeneratorSource,
    RateLimitedSource,
    StreamExecutionEnvironment,
)
from flinknet.graph.graph import JobGraph
from flinknet.net.http_calls import HttpCalls
from flinknet.net.memory_bound import memory_bound
from flinknet.net.tls import tls_of
from tests.certificates import Authority
from tests.integration.exchange_programs import status_bytes

MIB = 2**20
RECORDS, RATE = 20_000, 2_000.0
SLACK_BYTES = 16 * MIB
"""Slack for the interpreter and the allocator, as in ``test_memory_bound.py``."""

ATTACKERS = 100

REASONS = {
    "silent": {"silent", "full"},
    "slow": {"slow", "silent", "full"},
    "garbage": {"malformed", "tls"},
    "handshakes": {"left"},
    "wrong_secret": {"refused"},
    "wrong_certificate": {"tls"},
    "replayed": {"refused"},
}
"""The workers' possible reasons for refusing each kind of attacker.

With TLS, an attacker with an incomplete first TLS message counts as silent.
"""

VIOLATIONS = {
    "forged_credit": "credit",
    "oversized": "message",
    "pings": "heartbeats",
    "requests": "requests",
    "cancels": "cancels",
    "unread": "requests",
}
"""The violations of attackers that pass the handshake.

An attacker that requests much and reads nothing reaches the limit on requests before its answers
are due. ``unit/net/test_link_protocol.py`` tests one that exceeds ``control_bytes_max``.
"""

HTTP_REASONS = {
    "http_silent": {"silent"},
    "http_slow_head": {"slow"},
    "http_garbage": {"malformed", "left"},
    "http_wrong_token": {"unauthorized"},
    "http_unread": {"unread"},
}


def config_of(tls: TlsConfig) -> FlinknetConfig:
    """Return limits that a hundred attackers exceed within the seconds of a test."""
    return FlinknetConfig(
        network=NetworkConfig(
            segment_bytes=4096,
            network_memory_bytes=16 * MIB,
            record_bytes_max=MIB,
            record_spill_bytes=MIB,
            reassembly_memory_bytes=MIB,
            rendezvous_timeout_ms=10_000,
            wire=WireLimits(
                handshake_timeout_ms=1_000.0,
                control_bytes_max=256 * 1024,
                channels_per_connection_max=1_000,
                unused_requests_per_minute_max=1_000,
            ),
        ),
        cluster=ClusterConfig(http_request_timeout_ms=1_000.0, tls=tls),
    )


def good_job() -> JobGraph:
    environment = StreamExecutionEnvironment().set_parallelism(2)
    source = RateLimitedSource(GeneratorSource(lambda number: (number % 10, number), RECORDS), RATE)
    numbers = environment.from_source(source)
    totals = numbers.key_by(lambda record: record[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    totals.rebalance().sink_to(CollectSink()).name("out")
    return environment.job_graph("good")


async def refused_by_http(calls: HttpCalls) -> set[str]:
    """Return the reasons for which the coordinator has refused HTTP requests."""
    page = (await calls.call("GET", "/metrics")).content.decode()
    return set(
        re.findall(r'^flinknet_http_refused_total{[^}]*reason="([a-z]+)"', page, re.MULTILINE)
    )


async def refused_by_workers(client: CoordinatorClient, names: Iterable[str]) -> set[str]:
    """Return the reasons for which the workers have refused or closed connections."""
    reasons = set()
    for name in names:
        peers = (await client.statistics(name, fresh=True)).peers
        reasons |= {one.reason for one in peers.refused} | {one.kind for one in peers.violations}
    return reasons


async def until_seen(read: Callable[[], Awaitable[set[str]]], groups: Iterable[set[str]]) -> None:
    """Read reasons until one of each group has been there."""
    missing, seen = [*groups], set[str]()
    while missing := [group for group in missing if not group & seen]:
        print(f"not seen yet: {missing}", file=sys.stderr)
        seen |= await read()


@pytest.mark.parametrize("is_secure", [False, True], ids=["secret", "TLS"])
async def test_a_hundred_attackers_beside_a_good_job(tmp_path: Path, is_secure: bool) -> None:
    tls, foreign = TlsConfig(), None
    if is_secure:
        authority, other = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
        for one in (authority, other):
            one.issue("worker-*", "127.0.0.1")
        certificate, key, ca = map(str, authority.files("worker-*"))
        tls = TlsConfig(certificate, key, ca, http_clients="token")
        foreign = other.files("worker-*")[:2]
    config = config_of(tls)
    names = [kind for kind in KINDS if is_secure or kind not in SECURE_KINDS]
    kinds = Counter(names[number % len(names)] for number in range(ATTACKERS))
    graph = good_job()
    async with LocalCluster(config) as cluster:
        pids = {name: pid for name, pid in cluster.pids().items() if name != "coordinator"}
        before = {name: status_bytes("VmRSS", pid) for name, pid in pids.items()}
        job = asyncio.create_task(cluster.execute(graph, job_id="a" * 32))
        async with besieged(cluster, config, kinds, foreign) as ends:
            client = CoordinatorClient(cluster.address, cluster.token, config.cluster)
            joined_s = [round(await join(cluster, config), 3) for _ in range(3)]
            result = await job
            progress = await client.progress("a" * 32)
            reasons = [REASONS[kind] for kind in names if kind in REASONS]
            violations = [{kind} for kind in VIOLATIONS.values()]
            await until_seen(partial(refused_by_workers, client, pids), reasons + violations)
            calls = HttpCalls(cluster.address, cluster.token, tls_of(tls))
            await until_seen(partial(refused_by_http, calls), HTTP_REASONS.values())
        peaks = {name: status_bytes("VmHWM", pid) for name, pid in pids.items()}
    print(f"joined within {joined_s} s; ends: {ends}", file=sys.stderr)
    sums: dict[int, int] = {}
    for digit, total in result.collected["out"]:
        sums[digit] = max(total, sums.get(digit, 0))
    assert sums == {digit: sum(range(digit, RECORDS, 10)) for digit in range(10)}
    assert (progress.state, progress.attempt) == ("FINISHED", 0)

    bounds = JobMemory.of_graph(graph, config)
    for needs in bounds.workers:
        shape = needs.shape._replace(connections=needs.shape.connections + ATTACKERS)
        bound = memory_bound(config.network, shape).total + SLACK_BYTES
        grown = peaks[needs.worker_id] - before[needs.worker_id]
        print(f"grew by {grown / MIB:.1f} MiB of {bound / MIB:.1f} MiB", file=sys.stderr)
        assert grown <= bound
