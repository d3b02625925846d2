"""What a peer may say about its channels, and what it may open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.config import NetworkConfig, WireLimits
from flinknet.connection.peer_budget import ReaderQuota
from flinknet.connection.reader_registry import ReaderRegistry
from flinknet.connection.subpartition_reader import SubpartitionReader
from flinknet.errors import PartitionNotFoundError, RemoteProtocolError, TooManyChannelsError
from flinknet.partition.registry import PartitionRegistry, wire_partition_id
from flinknet.partition.result_partition import ResultPartition
from flinknet.wire.messages import CONNECTION_CHANNEL
from tests.unit.arrangements import assert_everything_returned, make_config

PARTITION = wire_partition_id("p")


class Worker:
    """A producing worker with one partition, and what one of its peers has opened there."""

    peer = "consumer at 127.0.0.1:7002"

    def __init__(self, *, readers_max: int = 100, **options: Any) -> None:
        config: NetworkConfig = make_config(**options)
        self.failures: list[tuple[int, BaseException]] = []
        self.pool = NetworkBufferPool(64, config.segment_bytes)
        self.partition = ResultPartition("p", 8, self.pool, config)
        self.partitions = PartitionRegistry(10.0)
        self.partitions.register(self.partition)
        self.quota = ReaderQuota(readers_max)
        self.readers = ReaderRegistry(self, self.partitions, config, self.quota, "consumer")

    def on_reader_available(self, reader: SubpartitionReader) -> None:
        """Nothing is sent here."""

    def on_channel_failed(self, channel: int, cause: BaseException) -> None:
        self.failures.append((channel, cause))

    def announce_backlog(self, reader: SubpartitionReader, backlog: int) -> None:
        """Every reader begins with credit here."""

    def request(self, channel: int, *, credit: int = 2, partition: bytes = PARTITION) -> None:
        """Open the subpartition of the channel's own number."""
        self.readers.request(channel, partition, channel % 8, credit, now=0.0)

    def close(self) -> None:
        self.readers.lost(ConnectionError("the test is over"))
        assert len(self.readers) == 0
        assert self.quota.taken == 0
        assert self.partitions.waiting == 0
        self.partition.release()
        assert_everything_returned(self.pool)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(RemoteProtocolError) as refused:
        call()
    return str(refused.value)


# -- requests --------------------------------------------------------------------------------------


def test_a_request_opens_a_reader_of_its_subpartition() -> None:
    worker = Worker()
    worker.request(0)
    worker.request(5)
    assert [reader.channel for reader in worker.readers] == [0, 5]
    assert (len(worker.readers), worker.quota.taken) == (2, 2)
    assert worker.partition.unread == [1, 2, 3, 4, 6, 7]
    worker.close()


def test_a_request_for_what_is_not_there_yet_waits() -> None:
    worker = Worker()
    worker.request(0, partition=wire_partition_id("not yet"))
    assert worker.partitions.waiting == 1
    worker.readers.cancel(0, now=0.0)
    assert worker.partitions.waiting == 0
    worker.close()


def test_a_number_must_be_higher_than_all_before() -> None:
    """Also than that of a channel that has been cancelled."""
    worker = Worker()
    worker.request(5)
    worker.readers.cancel(5, now=0.0)
    for channel in (0, 5):
        assert refusal(lambda channel=channel: worker.request(channel)) == (  # type: ignore[misc]
            f"the peer requested channel {channel}; its next number is 6 or more"
        )
    assert "requested channel 4294967295" in refusal(lambda: worker.request(CONNECTION_CHANNEL))
    worker.request(6)
    worker.close()


def test_an_initial_credit_is_limited() -> None:
    worker = Worker(wire=WireLimits(credit_per_channel_max=20))
    assert "with a credit of 21; the limit is 20" in refusal(lambda: worker.request(0, credit=21))
    worker.request(0, credit=20)
    worker.close()


def test_channels_are_limited_and_a_cancelled_one_no_longer_counts() -> None:
    worker = Worker(wire=WireLimits(channels_per_connection_max=2))
    worker.request(0)
    worker.request(1)
    assert "more than 2 channels" in refusal(lambda: worker.request(2))
    worker.readers.cancel(0, now=0.0)
    worker.request(2)
    worker.close()


def test_without_flow_control_there_is_no_credit() -> None:
    worker = Worker(flow_control="off")
    assert "though flow control is off" in refusal(lambda: worker.request(0, credit=1))
    worker.request(0, credit=0)
    assert "though flow control is off" in refusal(lambda: worker.readers.add_credit(0, 1))
    worker.close()


def test_a_worker_that_serves_as_many_as_it_may_refuses_the_channel_and_nothing_else() -> None:
    """Whatever the peer says about it before it hears of that is not held against it."""
    worker = Worker(readers_max=1)
    worker.request(0)
    worker.request(1)
    ((channel, cause),) = worker.failures
    assert channel == 1
    assert isinstance(cause, TooManyChannelsError)
    assert "serves 1 channels" in str(cause)
    assert [reader.channel for reader in worker.readers] == [0]
    worker.readers.add_credit(1, 3)
    worker.readers.cancel(1, now=0.0)
    assert worker.quota.taken == 1
    worker.readers.cancel(0, now=0.0)
    worker.request(2)
    worker.request(3)
    worker.close()


# -- messages about a channel ----------------------------------------------------------------------


def test_every_message_about_a_channel_that_is_not_open_is_a_violation() -> None:
    worker = Worker()
    worker.request(0)
    worker.readers.cancel(0, now=0.0)
    readers = worker.readers
    said: dict[str, Callable[[int], object]] = {
        "ADD_CREDIT": lambda channel: readers.add_credit(channel, 1),
        "RESUME_CONSUMPTION": readers.resume_consumption,
        "ACKNOWLEDGE_ALL_RECORDS_PROCESSED": readers.acknowledge_all_data_processed,
        "NEW_BUFFER_SIZE": lambda channel: readers.notify_new_buffer_size(channel, 10),
        "CANCEL_PARTITION_REQUEST": lambda channel: readers.cancel(channel, now=0.0),
    }
    for message, say in said.items():
        for channel in (0, 7):
            assert refusal(lambda say=say, channel=channel: say(channel)) == (  # type: ignore[misc]
                f"the peer sent {message} for channel {channel}, which it has not requested or "
                f"has cancelled"
            )
    worker.close()


def test_messages_reach_their_reader_and_its_partition() -> None:
    worker = Worker()
    worker.request(0)
    (reader,) = worker.readers
    worker.readers.add_credit(0, 3)
    assert reader.credit == 5
    worker.readers.notify_new_buffer_size(0, 32)
    assert worker.partition.subpartitions[0].buffer_bytes == 32
    with pytest.raises(RemoteProtocolError):
        worker.readers.resume_consumption(0)
    with pytest.raises(RemoteProtocolError):
        worker.readers.acknowledge_all_data_processed(0)
    worker.close()


@pytest.mark.parametrize("size", [0, 65])
def test_a_buffer_size_is_one_that_there_can_be(size: int) -> None:
    worker = Worker(segment_bytes=64)
    worker.request(0)
    assert refusal(lambda: worker.readers.notify_new_buffer_size(0, size)) == (
        f"the peer asked for buffers of {size} bytes on channel 0; choose 1 to 64"
    )
    worker.close()


def test_requests_that_are_cancelled_unused_are_limited() -> None:
    """They make work and carry nothing; a minute later there may be more."""
    limits = WireLimits(channels_per_connection_max=2, unused_requests_per_minute_max=2)
    worker = Worker(wire=limits)
    for channel in range(2):
        worker.request(channel)
        worker.readers.cancel(channel, now=float(channel))
    worker.request(2)
    assert "more than 2 requests in a minute" in refusal(lambda: worker.readers.cancel(2, now=2.0))
    worker.readers.cancel(2, now=61.0)
    worker.close()


# -- the end ---------------------------------------------------------------------------------------


def test_a_lost_peer_leaves_no_reader_and_no_request() -> None:
    worker = Worker(readers_max=2)
    worker.request(0)
    worker.request(1, partition=wire_partition_id("not yet"))
    worker.request(2)
    cause = ConnectionError("the cable")
    worker.readers.lost(cause)
    assert worker.partition.lost is cause
    assert (len(worker.readers), worker.quota.taken, worker.partitions.waiting) == (0, 0, 0)
    worker.close()


def test_a_partition_that_cannot_be_read_fails_its_channel_alone() -> None:
    worker = Worker()
    worker.request(0)
    worker.request(8)
    assert worker.failures, "subpartition 0 has a reader already"
    assert len(worker.readers) == 2
    worker.partition.release()
    worker.request(9)
    assert isinstance(worker.failures[-1][1], PartitionNotFoundError)
    worker.close()
