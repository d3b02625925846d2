"""The gate requests: how a worker's gates get their buffers and producers.

This does the work of Flink's SingleInputGate.setup() and requestPartitions(). A gate first requests
its exclusive buffers. It may wait for other owners, up to ``buffers_request_timeout_ms``. Then its
partitions are requested: local ones from the registry, and remote ones over the connection to their
worker. One task per address does so, because the connection may not exist yet.

If no data has come from an address after ``rendezvous_notice_ms``, an informational log line says
so. Only the producer's worker knows whether the partition is missing there, and warns, or whether
it has had nothing to send. An error fails the channels that it concerns, and thus the gate. The
release of a gate stops all its waiting.

A gate is known here from ``open`` to its release.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from flinknet.config import NetworkConfig
from flinknet.consumer.input_channel import InputChannel
from flinknet.consumer.input_gate import InputGate
from flinknet.consumer.local_channel import LocalInputChannel
from flinknet.consumer.remote_channel import RemoteInputChannel
from flinknet.errors import FlinknetError, RemoteTransportError
from flinknet.net.peers import PeerDirectory
from flinknet.partition.registry import PartitionRegistry, wire_partition_id
from flinknet.texts import text_of

__all__ = ["GateRequests"]

log = logging.getLogger("flinknet.rendezvous")


class GateRequests:
    """Pending requests of one worker's gates."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        registry: PartitionRegistry,
        peers: PeerDirectory,
        config: NetworkConfig,
        worker_id: str,
    ) -> None:
        self._worker_id = worker_id
        self._loop = loop
        self._registry = registry
        self._peers = peers
        self._setup_timeout_ms = config.buffers_request_timeout_ms
        self._setup_timers: dict[InputGate, asyncio.TimerHandle] = {}
        self._notice_s = config.rendezvous_notice_ms / 1000
        self._notices: dict[InputGate, list[asyncio.TimerHandle]] = {}
        self._tasks: dict[InputGate, set[asyncio.Task[None]]] = {}

    @property
    def gates(self) -> Collection[InputGate]:
        """Open gates, in the order of their opening."""
        return self._tasks.keys()

    def is_connecting(self, gate: InputGate) -> bool:
        """Return whether a producer of the gate has not been reached yet."""
        return bool(self._tasks.get(gate))

    def open(self, gate: InputGate) -> None:
        """Request a new gate's buffers, and its partitions with known locations.

        Raises:
            InsufficientNetworkBuffersError: If the request for buffers can never be met. The gate
                is then released.
        """
        self._tasks[gate] = set()
        gate.when_released(self._forget)
        try:
            gate.setup(partial(self._on_set_up, gate))
        except FlinknetError:
            gate.release()
            raise
        if not gate.is_set_up:
            self._setup_timers[gate] = self._loop.call_later(
                self._setup_timeout_ms / 1000, gate.time_out_setup, self._setup_timeout_ms
            )

    def _on_set_up(self, gate: InputGate) -> None:
        self._stop_setup_timer(gate)
        self.request(gate, gate.channels)

    def request(self, gate: InputGate, channels: Iterable[InputChannel]) -> None:
        """Request the partitions of the channels with known producers, in the background."""
        by_address: dict[str, list[RemoteInputChannel]] = {}
        for channel in channels:
            if isinstance(channel, RemoteInputChannel):
                by_address.setdefault(channel.location.address, []).append(channel)
            elif isinstance(channel, LocalInputChannel):
                self._request_local(channel)
        for address, remote in by_address.items():
            task = self._loop.create_task(
                self._request_remote(gate, address, remote), name=f"{gate.name} requests"
            )
            tasks = self._tasks[gate]
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    def _request_local(self, channel: LocalInputChannel) -> None:
        partition_id, subpartition = channel.location.partition_id, channel.location.subpartition
        self._registry.request(
            wire_partition_id(partition_id),
            subpartition,
            channel,
            self._loop.time(),
            consumer=self._worker_id,
        )

    async def _request_remote(
        self, gate: InputGate, address: str, channels: Sequence[RemoteInputChannel]
    ) -> None:
        try:
            session = await self._peers.connect(address, str(channels[0]))
        except FlinknetError as error:
            _fail_all(channels, error)
        except Exception as error:  # catch all errors, so that the gate does not wait forever
            _fail_all(
                channels, RemoteTransportError(f"cannot connect to {address}: {text_of(error)}")
            )
        else:
            for channel in channels:
                channel.request(session)
            if self._notice_s:
                notice = self._loop.call_later(self._notice_s, self._log_waiting, address, channels)
                self._notices.setdefault(gate, []).append(notice)

    def _log_waiting(self, address: str, channels: Sequence[RemoteInputChannel]) -> None:
        if not any(channel.buffers_in or channel.error for channel in channels):
            others = f" and {len(channels) - 1} more" if len(channels) > 1 else ""
            log.info(
                "%s%s: requested from %s, but nothing has arrived for %g s: the partition is not "
                "registered there, or its producer has sent nothing",
                channels[0],
                others,
                address,
                self._notice_s,
            )

    # -- the end ----------------------------------------------------------------------------------

    def release(self) -> list[asyncio.Task[None]]:
        """Release every gate; return the cancelled tasks, which the caller must await."""
        cancelled: list[asyncio.Task[None]] = []
        while self._tasks:
            gate, tasks = next(iter(self._tasks.items()))
            cancelled += tasks
            gate.release()  # its buffers may be needed by another waiting gate
        return cancelled

    def _forget(self, gate: InputGate) -> None:
        self._stop_setup_timer(gate)
        for notice in self._notices.pop(gate, ()):
            notice.cancel()
        for task in self._tasks.pop(gate, ()):
            task.cancel()
        for channel in gate.local_channels:
            self._registry.cancel(channel)

    def _stop_setup_timer(self, gate: InputGate) -> None:
        timer = self._setup_timers.pop(gate, None)
        if timer is not None:
            timer.cancel()


def _fail_all(channels: Iterable[InputChannel], error: Exception) -> None:
    for channel in channels:
        channel.fail(error)
