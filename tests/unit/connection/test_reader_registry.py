"""A peer's requests: their number, and the peer's messages about them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from flinknet.config import WireLimits
from flinknet.connection.link import Link
from flinknet.connection.peer_limits import UNMET_REQUESTS_AT_ONCE, ReaderQuota, UnmetRequestPacer
from flinknet.connection.session import Session
from flinknet.errors import (
    ConfigurationError,
    PartitionNotFoundError,
    RemoteProtocolError,
    TooManyChannelsError,
)
from flinknet.partition.registry import wire_partition_id
from flinknet.wire.checksum import seal
from flinknet.wire.messages import MessageType
from tests.unit.arrangements import event_of, make_config, put
from tests.unit.connection.joined import Joined, Worker, messages
from tests.unit.wire.received import about, partition_request

M = MessageType
HEARTBEAT = b"\x91\x0c"


def churn(channel: int) -> bytes:
    return partition_request(channel) + about(M.CANCEL_PARTITION_REQUEST, channel)


def test_requests_that_are_cancelled_unused_are_limited() -> None:
    joined = Joined(
        wire=WireLimits(channels_per_connection_max=5, unused_requests_per_minute_max=5)
    )
    producer = joined.producer
    producer.receive(b"".join(map(churn, range(5))))
    producer.now += 60.0
    producer.receive(b"".join(map(churn, range(5, 10))))
    with pytest.raises(RemoteProtocolError, match="unused_requests_per_minute_max"):
        producer.receive(churn(10))
    joined.close()


def test_requests_that_were_used_may_be_cancelled_as_often_as_one_likes() -> None:
    joined = Joined(
        wire=WireLimits(channels_per_connection_max=1, unused_requests_per_minute_max=1)
    )
    for channel in range(20):
        partition = joined.producer.make_partition()
        put(partition, 0, b"\x01")
        partition.flush_all()
        joined.producer.receive(partition_request(channel, wire_partition_id("p"), credit=1))
        assert messages(joined.producer.send())[0][0] is M.BUFFER_RESPONSE
        joined.producer.receive(about(M.CANCEL_PARTITION_REQUEST, channel))
        partition.release()
    joined.close()


def test_a_job_that_cancels_all_its_channels_at_once_is_within_the_limits() -> None:
    with pytest.raises(ConfigurationError, match="unused_requests_per_minute_max is 9, less than"):
        WireLimits(channels_per_connection_max=10, unused_requests_per_minute_max=9)


# -- requests that meet no partition --------------------------------------------------------------

UNMET = {
    "unknown": ("unknown", 0),
    "released": ("released", 0),
    "being read": ("taken", 0),
    "no such subpartition": ("taken", 9),
    "over the worker's limit": ("unknown", 0),
}


def feed(link: Link, data: bytes, now: float) -> None:
    """Feed the bytes of one read to the link."""
    memory = link.get_buffer()
    memory[: len(data)] = data
    memory.release()
    link.received(len(data), now)


@pytest.mark.parametrize("checksums", ["off", "on"])
@pytest.mark.parametrize("kind", UNMET)
def test_few_requests_that_meet_no_partition_are_a_turn(kind: str, checksums: str) -> None:
    """The turn ends early, as each of these requests costs as much as ten other messages."""
    limit = 1 if kind == "over the worker's limit" else 1_000
    joined = Joined(checksums=checksums, wire=WireLimits(channels_per_worker_max=limit))
    worker = joined.producer
    sealed = seal if checksums == "on" else bytes
    worker.make_partition("released").release()
    taken = worker.make_partition("taken")
    worker.receive(sealed(partition_request(0, wire_partition_id("taken"), credit=1)))
    name, subpartition = UNMET[kind]
    wire_id = wire_partition_id(name)
    requests = [
        sealed(partition_request(channel, wire_id, subpartition)) for channel in range(1, 101)
    ]
    feed(worker.link, b"".join(requests), worker.now)
    handled = []
    while True:
        handled.append(len(worker.session.readers._readers) - 1)
        assert worker.link.must_pause == (handled[-1] % UNMET_REQUESTS_AT_ONCE == 0)
        if not worker.link.has_more:
            break
        assert worker.link.take_pause() <= worker.now
        worker.link.received(0, worker.now)
    at_once = UNMET_REQUESTS_AT_ONCE
    assert handled == [*range(at_once, 100, at_once), 100]
    taken.release()
    joined.close()


def test_requests_that_are_granted_need_no_rest() -> None:
    joined = Joined()
    partition = joined.producer.make_partition(subpartitions=40)
    wire_id = wire_partition_id("p")
    requests = [partition_request(index, wire_id, index, credit=1) for index in range(40)]
    feed(joined.producer.link, b"".join(requests), 0.0)
    assert not joined.producer.link.has_more
    assert not joined.producer.link.must_pause
    assert len(joined.producer.session.readers) == 40
    partition.release()
    joined.close()


def test_peers_that_ask_for_unknown_partitions_share_one_pace() -> None:
    """Eight peers request as fast as they may.

    Together they do not exceed the pace, and each gets an equal share. A peer that comes later
    waits only for its own turn.
    """
    rate, peers, seconds = 1_000, 8, 4.0
    places = UnmetRequestPacer(rate)

    def worker() -> Worker:
        return Worker(
            "127.0.0.1:1", "p", make_config(receive_buffer_bytes=4096), unmet_requests=places
        )

    workers = [worker() for _ in range(peers)]
    asked = [0] * peers
    due = [(0.0, 0, index) for index in range(peers)]
    while (now := min(due)[0]) < seconds:
        index = min(due)[2]
        due.remove(min(due))
        link = workers[index].link
        data = b"".join(churn(asked[index] + number) for number in range(UNMET_REQUESTS_AT_ONCE))
        feed(link, data, now)
        while link.has_more:
            link.received(0, now)
        asked[index] += UNMET_REQUESTS_AT_ONCE
        due.append((max(now, link.take_pause()), asked[index], index))
    assert rate * seconds <= sum(asked) <= rate * (seconds + 0.5) + peers * UNMET_REQUESTS_AT_ONCE
    assert max(asked) - min(asked) <= UNMET_REQUESTS_AT_ONCE
    newcomer = worker()
    feed(newcomer.link, b"".join(map(churn, range(UNMET_REQUESTS_AT_ONCE))), seconds)
    good_waited = newcomer.link.take_pause() - seconds
    assert good_waited <= (peers + 1) * UNMET_REQUESTS_AT_ONCE / rate


# -- event credit ----------------------------------------------------------------------------------


def test_event_credit_is_for_the_channel_that_it_names() -> None:
    joined = Joined(wire=WireLimits(events_per_channel_max=2))
    partition = joined.producer.make_partition(subpartitions=2)
    joined.producer.receive(
        b"".join(partition_request(index, wire_partition_id("p"), index) for index in range(2))
    )
    for subpartition in partition.subpartitions:
        for _ in range(4):
            subpartition.add_event(event_of())
    assert sorted(message[1] for message in messages(joined.producer.send())) == [0, 0, 1, 1]
    joined.producer.receive(about(M.ADD_EVENT_CREDIT, 1, 2))
    assert [message[1] for message in messages(joined.producer.send())] == [1, 1]
    joined.producer.receive(about(M.ADD_EVENT_CREDIT, 0, 1))
    assert [message[1] for message in messages(joined.producer.send())] == [0]
    joined.close()


# -- readers of all connections --------------------------------------------------------------------


def test_a_request_over_the_workers_limit_fails_its_channel_alone() -> None:
    """The consumer may still send messages about it until it cancels.

    After the cancellation there is room again.
    """
    joined = Joined(wire=WireLimits(channels_per_worker_max=2))
    partition = joined.producer.make_partition(subpartitions=4)
    gates = [joined.consumer.make_gate(joined.produced(index)) for index in range(3)]
    joined.pump()
    assert gates[0].failure is gates[1].failure is None
    assert isinstance(gates[2].failure, TooManyChannelsError)
    assert "channels_per_worker_max" in str(gates[2].failure)
    statistics = joined.producer.link.statistics()
    assert [reader.channel for reader in statistics.readers] == [0, 1]
    joined.producer.receive(
        about(M.ADD_CREDIT, 2, 65_535)
        + about(M.ADD_CREDIT, 2, 65_535)
        + about(M.NEW_BUFFER_SIZE, 2, 64)
    )
    put(partition, 0, b"\x01")
    partition.flush_all()
    joined.pump()
    polled = gates[0].poll()
    assert polled is not None
    polled[1].recycle()
    for gate in gates:
        gate.release()
    joined.pump()
    gates.append(joined.consumer.make_gate(joined.produced(3)))
    joined.pump()
    assert gates[3].failure is None
    gates[3].release()
    joined.close()


@pytest.mark.parametrize(
    "answer",
    [
        (M.RESUME_CONSUMPTION, 1),
        (M.ACKNOWLEDGE_ALL_RECORDS_PROCESSED, 1),
        (M.ADD_EVENT_CREDIT, 1, 1),
    ],
)
def test_a_refused_channel_accepts_no_answer_to_data_never_sent(
    answer: tuple[M, *tuple[int, ...]],
) -> None:
    joined = Joined(wire=WireLimits(channels_per_worker_max=1))
    joined.producer.receive(partition_request(0) + partition_request(1))
    [(kind, channel, code, _)] = messages(joined.producer.send())
    assert (kind, channel, code) == (M.ERROR_RESPONSE, 1, 10)
    with pytest.raises(RemoteProtocolError):
        joined.producer.receive(about(*answer))
    joined.close()


def test_refused_channels_count_for_their_connection_until_they_are_cancelled() -> None:
    joined = Joined(wire=WireLimits(channels_per_worker_max=1, channels_per_connection_max=3))
    receive = joined.producer.receive
    receive(b"".join(map(partition_request, range(3))))
    receive(about(M.CANCEL_PARTITION_REQUEST, 2) + partition_request(3))
    with pytest.raises(RemoteProtocolError, match="more than 3 channels"):
        receive(partition_request(4))
    joined.close()


def test_a_lost_connection_gives_back_what_it_has_taken() -> None:
    quota = ReaderQuota(2)
    joined = Joined()
    registry, config = joined.producer.registry, joined.producer.config
    one, other = (Session(name, registry, config, quota) for name in ("one", "other"))
    for channel in range(3):
        one.on_message(M.PARTITION_REQUEST, (channel, bytes(16), 0, 1), 0.0)
    other.on_message(M.PARTITION_REQUEST, (0, bytes(16), 0, 1), 0.0)
    assert quota.taken == 2
    one.detach(ConnectionError("gone"))
    assert quota.taken == 0
    other.on_message(M.PARTITION_REQUEST, (1, bytes(16), 0, 1), 0.0)
    assert quota.taken == 1
    assert registry.waiting == 1
    other.detach(PartitionNotFoundError("the test is over"))
    assert quota.taken == 0
    joined.close()


VIOLATIONS: dict[str, tuple[dict[str, Any], bytes]] = {
    "its next number is 2 or more": ({}, partition_request(1) + partition_request(1)),
    "(credit_per_channel_max)": ({}, partition_request(0, credit=2**31)),
    "1, though flow control is off": ({"flow_control": "off"}, partition_request(0, credit=1)),
    "more than 1 channels (channels_per_connection_max)": (
        {"wire": WireLimits(channels_per_connection_max=1)},
        partition_request(0) + partition_request(1),
    ),
    "ADD_CREDIT, though flow control is off": ({"flow_control": "off"}, about(M.ADD_CREDIT, 0, 1)),
    "added a credit of 2147483648 to channel 0": (
        {},
        partition_request(0) + about(M.ADD_CREDIT, 0, 2**31),
    ),
    "buffers of 0 bytes on channel 0": ({}, partition_request(0) + about(M.NEW_BUFFER_SIZE, 0, 0)),
    "ADD_EVENT_CREDIT for channel 5, which it has not": ({}, about(M.ADD_EVENT_CREDIT, 5, 1)),
    "NEW_BUFFER_SIZE for channel 5, which it has not": ({}, about(M.NEW_BUFFER_SIZE, 5, 1)),
}


@pytest.mark.parametrize("reason", VIOLATIONS)
def test_invalid_messages_about_channels_are_refused(reason: str) -> None:
    options, said = VIOLATIONS[reason]
    joined = Joined(**options)
    with pytest.raises(RemoteProtocolError, match=re.escape(reason)):
        joined.producer.receive(said)
    joined.close()
