from __future__ import annotations

import gc
import inspect
import logging
import weakref
from collections.abc import Callable

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.config import NetworkConfig
from flinknet.errors import (
    ConsumerCancelledError,
    KeptError,
    LocalProtocolError,
    PartitionNotFoundError,
    PartitionRequestTimeoutError,
    ProducerFailedError,
)
from flinknet.partition.registry import PartitionRegistry, wire_partition_id
from flinknet.partition.result_partition import ResultPartition
from tests.unit.arrangements import Reader, finish, make_config, put, take_all

WIRE_ID = wire_partition_id("p")

Produce = Callable[..., ResultPartition]


@pytest.fixture
def registry() -> PartitionRegistry:
    return PartitionRegistry(10.0)


@pytest.fixture
def produce(registry: PartitionRegistry) -> Produce:
    """Make a partition and register it."""
    pool = NetworkBufferPool(64, 64)

    def make(
        partition_id: str = "p", subpartitions: int = 1, consumers: list[str] | None = None
    ) -> ResultPartition:
        partition = ResultPartition(partition_id, subpartitions, pool, make_config())
        registry.register(partition, consumers)
        return partition

    return make


def test_a_name_is_16_bytes_on_the_wire() -> None:
    assert len(WIRE_ID) == 16
    assert wire_partition_id("p") == WIRE_ID
    assert len({wire_partition_id(f"p{number}") for number in range(1_000)}) == 1_000


def test_a_partition_is_granted_to_the_worker_that_was_named_for_it_alone(
    registry: PartitionRegistry, produce: Produce
) -> None:
    """This holds for each subpartition, and for requests before and after the registration."""
    askers = [(0, "one"), (1, "two"), (0, "two"), (1, "one"), (0, ""), (2, "one")]
    before, after = [Reader() for _ in askers], [Reader() for _ in askers]
    for reader, (subpartition, worker) in zip(before, askers, strict=True):
        registry.request(WIRE_ID, subpartition, reader, now=0.0, consumer=worker)
    partition = produce(subpartitions=2, consumers=["one", "two"])
    assert [len(reader.views) for reader in before] == [1, 1, 0, 0, 0, 0]
    for reader, (subpartition, worker) in zip(after, askers, strict=True):
        registry.request(WIRE_ID, subpartition, reader, now=1.0, consumer=worker)
    assert [len(reader.views) for reader in after] == [0] * 6  # each subpartition is read once
    assert [len(reader.failures) for reader in after] == [1, 1, 0, 0, 0, 0]
    partition.release()


def test_a_consumer_that_is_not_named_gets_not_found(
    registry: PartitionRegistry, produce: Produce
) -> None:
    """Its request is answered as for an unknown partition: while the partition exists, after it
    failed, and when the request expires."""
    partition = produce(consumers=["one"])
    strangers = [Reader(), Reader(), Reader()]
    registry.request(WIRE_ID, 0, strangers[0], now=0.0, consumer="two")
    partition.fail(ValueError("the password is wrong"))
    registry.request(WIRE_ID, 0, strangers[1], now=0.0, consumer="two")
    registry.request(wire_partition_id("nothing"), 0, strangers[2], now=0.0, consumer="two")
    for reader in strangers:
        assert (reader.views, reader.failures) == ([], [])
    registry.expire(10.0)
    told = {(type(reader.failures[0]), str(reader.failures[0])) for reader in strangers}
    assert len(told) == 1
    named = Reader()
    registry.request(WIRE_ID, 0, named, now=11.0, consumer="one")
    assert isinstance(named.failures[0], ProducerFailedError)


def test_a_name_that_is_used_again_is_granted_anew(
    registry: PartitionRegistry, produce: Produce
) -> None:
    produce(consumers=["one"]).release()
    partition = produce()
    anybody = Reader()
    registry.request(WIRE_ID, 0, anybody, now=0.0, consumer="two")
    assert len(anybody.views) == 1
    partition.release()


def test_a_registered_partition_answers_at_once(
    registry: PartitionRegistry, produce: Produce
) -> None:
    """D17, E13."""
    partition = produce()
    put(partition, 0, b"data")
    partition.flush_all()
    reader = Reader()
    registry.request(WIRE_ID, 0, reader, now=0.0)
    (view,) = reader.views
    assert take_all(view) == [b"data"]
    assert registry.waiting == 0
    assert registry.next_deadline() is None


def test_a_request_waits_for_its_partition(registry: PartitionRegistry, produce: Produce) -> None:
    """D17, E13: the registration answers this request and no other."""
    reader, second, stranger = Reader(), Reader(), Reader()
    registry.request(WIRE_ID, 0, reader, now=0.0)
    registry.request(WIRE_ID, 1, second, now=1.0)
    registry.request(wire_partition_id("other"), 0, stranger, now=2.0)
    assert (registry.waiting, registry.next_deadline()) == (3, 10.0)
    produce(subpartitions=2)
    assert (len(reader.views), len(second.views), len(stranger.views)) == (1, 1, 0)
    assert (registry.waiting, registry.next_deadline()) == (1, 12.0)


def test_a_remembered_failure_does_not_keep_objects_alive(
    registry: PartitionRegistry, produce: Produce
) -> None:
    """An exception keeps the frames that it passed through, and thereby a subtask's whole state."""

    def produce_with_state() -> weakref.ref[State]:
        state = State()
        partition = produce()
        try:
            raise ConsumerCancelledError("nobody reads")
        except ConsumerCancelledError as error:
            partition.fail(error)
        with pytest.raises(ConsumerCancelledError, match="nobody reads"):
            partition.check_writable()
        return weakref.ref(state)

    class State:
        pass

    state = produce_with_state()
    gc.collect()
    assert state() is None
    first, second = Reader(), Reader()
    for reader in (first, second):
        registry.request(WIRE_ID, 0, reader, now=0.0)
    (one,), (other,) = first.failures, second.failures
    assert type(one) is type(other) is ConsumerCancelledError
    assert (str(one), one is other) == ("nobody reads", False)


def test_a_request_that_waits_too_long_fails_once(registry: PartitionRegistry) -> None:
    """D17, E9, E13: it fails at its deadline, not before."""
    early, late = Reader(), Reader()
    registry.request(WIRE_ID, 0, early, now=5.0)
    registry.request(WIRE_ID, 0, late, now=6.0)
    registry.expire(14.9)
    assert early.failures == []
    registry.expire(15.0)
    registry.expire(15.5)
    (failure,) = early.failures
    assert isinstance(failure, PartitionRequestTimeoutError)
    assert isinstance(failure, PartitionNotFoundError)
    assert "10 s" in str(failure)
    assert "rendezvous_timeout_ms" in str(failure)
    assert late.failures == []
    assert registry.next_deadline() == 16.0


def test_a_late_registration_does_not_answer_what_has_failed(
    registry: PartitionRegistry, produce: Produce
) -> None:
    reader = Reader()
    registry.request(WIRE_ID, 0, reader, now=0.0)
    registry.expire(10.0)
    produce()
    assert (len(reader.failures), reader.views) == (1, [])


def test_a_cancelled_request_is_forgotten(registry: PartitionRegistry, produce: Produce) -> None:
    """E5, E13."""
    reader = Reader()
    registry.request(WIRE_ID, 0, reader, now=0.0)
    registry.cancel(reader)
    registry.cancel(reader)
    assert registry.next_deadline() is None
    produce()
    registry.expire(100.0)
    assert (reader.views, reader.failures) == ([], [])


def test_a_released_partition_is_refused_at_once(
    registry: PartitionRegistry, produce: Produce
) -> None:
    """D2, D17."""
    produce().release()
    reader = Reader()
    registry.request(WIRE_ID, 0, reader, now=0.0)
    (failure,) = reader.failures
    assert type(failure) is PartitionNotFoundError
    assert registry.waiting == 0
    assert registry.partitions() == ()


def test_a_partition_that_was_read_to_its_end_is_refused_as_released(
    registry: PartitionRegistry, produce: Produce
) -> None:
    partition = produce()
    reader, late = Reader(), Reader()
    registry.request(WIRE_ID, 0, reader, now=0.0)
    finish(partition)
    (view,) = reader.views
    assert take_all(view) == [DataType.END_OF_DATA, DataType.END_OF_PARTITION]
    view.release()
    assert registry.partitions() == ()
    registry.request(WIRE_ID, 0, late, now=0.0)
    (failure,) = late.failures
    assert type(failure) is PartitionNotFoundError
    assert "released" in str(failure)


def test_a_failed_partition_is_refused_with_the_first_cause(
    registry: PartitionRegistry, produce: Produce
) -> None:
    """C15."""
    produce().fail(ValueError("first cause"))
    reader = Reader()
    registry.request(WIRE_ID, 0, reader, now=0.0)
    (failure,) = reader.failures
    assert isinstance(failure, ProducerFailedError)
    assert "ValueError: first cause" in str(failure)


def test_a_name_can_be_used_again_after_the_release(
    registry: PartitionRegistry, produce: Produce
) -> None:
    produce().release()
    partition = produce()
    assert registry.partitions() == (partition,)
    reader = Reader()
    registry.request(WIRE_ID, 0, reader, now=0.0)
    assert len(reader.views) == 1


def test_a_name_in_use_is_refused(registry: PartitionRegistry, produce: Produce) -> None:
    partition = produce()
    with pytest.raises(LocalProtocolError, match="p is already registered"):
        produce()
    assert registry.partitions() == (partition,)


def test_a_request_for_what_cannot_be_read_fails(
    registry: PartitionRegistry, produce: Produce
) -> None:
    """C12: if the subpartition does not exist, or if it has a reader already."""
    produce()
    missing, first, second = Reader(), Reader(), Reader()
    registry.request(WIRE_ID, 1, missing, now=0.0)
    assert isinstance(missing.failures[0], PartitionNotFoundError)
    registry.request(WIRE_ID, 0, first, now=0.0)
    registry.request(WIRE_ID, 0, second, now=0.0)
    assert len(first.views) == 1
    assert isinstance(second.failures[0], LocalProtocolError)


def test_a_waiting_request_that_cannot_be_met_does_not_hurt_the_others(
    registry: PartitionRegistry, produce: Produce
) -> None:
    missing, reader = Reader(), Reader()
    registry.request(WIRE_ID, 7, missing, now=0.0)
    registry.request(WIRE_ID, 0, reader, now=0.0)
    produce()
    assert isinstance(missing.failures[0], PartitionNotFoundError)
    assert len(reader.views) == 1


@pytest.mark.parametrize("end", ["released", "failed", "a topic that failed"])
def test_the_memory_of_ended_partitions_is_bounded(end: str) -> None:
    """The registry keeps a bounded number of them for a bounded time and forgets the oldest first.

    A long-lived worker therefore does not grow with every job. Long texts are cut.
    """
    registry = PartitionRegistry(10.0, ended_max=100, ended_s=60.0)
    now = [0.0]
    registry.clock = lambda: now[0]
    pool = NetworkBufferPool(1000, 64)
    config = make_config(segment_bytes=64)

    def ended(name: str) -> None:
        if end == "a topic that failed":
            registry.forget_topic(name, KeptError(ProducerFailedError, "boom " * 10_000))
            return
        partition = ResultPartition(name, 1, pool, config)
        registry.register(partition)
        if end == "failed":
            partition.fail(ValueError("boom " * 10_000))
        else:
            partition.release()

    def failures_of(name: str) -> list[BaseException]:
        reader = Reader()
        registry.request(wire_partition_id(name), 0, reader, now=now[0])
        registry.cancel(reader)
        return reader.failures

    for number in range(101):
        now[0] = number / 100
        ended(f"p{number}")
    assert not failures_of("p0")
    [failure] = failures_of("p1")
    assert isinstance(failure, PartitionNotFoundError | ProducerFailedError)
    assert len(str(failure)) <= 1_000
    assert ("boom" in str(failure)) == (end != "released")
    now[0] = 60.5
    assert (failures_of("p50"), len(failures_of("p51"))) == ([], 1)


def test_a_name_that_is_used_again_is_not_what_ended_under_it(registry: PartitionRegistry) -> None:
    registry.forget_topic("p", KeptError(ProducerFailedError, "boom"))
    reader = Reader()
    registry.request(WIRE_ID, 0, reader, now=0.0)
    assert [type(failure) for failure in reader.failures] == [ProducerFailedError]

    def join() -> ResultPartition:
        raise RuntimeError("asked")

    registry.register_topic("p", join)
    registry.request(WIRE_ID, 0, reader, now=0.0)
    registry.forget_topic("p")
    registry.request(WIRE_ID, 0, reader, now=0.0)
    assert (len(reader.failures), registry.waiting) == (2, 1)


def test_a_request_says_whether_a_subpartition_was_granted(
    registry: PartitionRegistry, produce: Produce
) -> None:
    """A topic makes a new partition for each request, so nothing bounds these and none counts as
    granted."""
    partition = produce()

    def join() -> ResultPartition:
        raise RuntimeError("asked")

    registry.register_topic("topic", join)
    topic, unknown = wire_partition_id("topic"), wire_partition_id("unknown")
    assert registry.request(WIRE_ID, 0, Reader(), now=0.0)
    assert not registry.request(WIRE_ID, 0, Reader(), now=0.0), "it is taken"
    assert not registry.request(WIRE_ID, 1, Reader(), now=0.0), "there is no such one"
    assert not registry.request(topic, 0, Reader(), now=0.0)
    assert not registry.request(unknown, 0, Reader(), now=0.0)
    partition.release()
    assert not registry.request(WIRE_ID, 0, Reader(), now=0.0)


def test_requests_expire_in_turns(registry: PartitionRegistry) -> None:
    readers = [Reader() for _ in range(5)]
    for reader in readers:
        registry.request(WIRE_ID, 0, reader, now=0.0)
    registry.expire(1e9, 2)
    assert [len(reader.failures) for reader in readers] == [1, 1, 0, 0, 0]
    assert registry.next_deadline() is not None
    registry.expire(1e9)
    assert registry.waiting == 0


# -- rendezvous ------------------------------------------------------------------------------------


def test_without_a_time_out_a_request_waits_for_ever() -> None:
    registry = PartitionRegistry(0.0)
    reader = Reader()
    registry.request(WIRE_ID, 0, reader, now=0.0)
    assert registry.next_deadline() is None
    registry.expire(1e9)
    assert (registry.waiting, reader.failures) == (1, [])


def test_a_request_that_waits_long_is_overdue_once() -> None:
    registry = PartitionRegistry(60.0, notice_s=5.0)
    first, second, third = Reader(), Reader(), Reader()
    registry.request(WIRE_ID, 0, first, now=0.0)
    registry.request(WIRE_ID, 1, second, now=0.5)
    assert registry.next_deadline() == 5.0
    assert registry.take_overdue(4.9) == []
    registry.request(WIRE_ID, 2, third, now=5.0)
    assert registry.take_overdue(5.5) == [first, second]
    assert registry.take_overdue(5.5) == []
    assert registry.next_deadline() == 10.5, "one notice per pause, however many come"
    registry.cancel(third)
    assert registry.next_deadline() == 60.0
    assert registry.take_overdue(60.0) == []


def test_the_end_of_the_worker_ends_every_waiting_request(registry: PartitionRegistry) -> None:
    readers = [Reader(), Reader()]
    for reader in readers:
        registry.request(WIRE_ID, 0, reader, now=0.0)
    registry.close()
    for reader in readers:
        (failure,) = reader.failures
        assert type(failure) is PartitionNotFoundError
        assert "closed before the partition was registered" in str(failure)
    assert registry.waiting == 0


def test_a_request_from_inside_the_failure_of_another_is_not_lost(
    registry: PartitionRegistry,
) -> None:
    """A consumer may repeat its request as soon as it is refused."""

    class Stubborn(Reader):
        def on_request_failed(self, cause: BaseException) -> None:
            super().on_request_failed(cause)
            registry.request(WIRE_ID, 0, patient, now=10.0)

    patient = Reader()
    registry.request(WIRE_ID, 0, Stubborn(), now=0.0)
    registry.expire(10.0)
    assert (registry.waiting, patient.failures, registry.next_deadline()) == (1, [], 20.0)


def test_the_life_of_a_partition_and_its_requests_is_logged(
    registry: PartitionRegistry, produce: Produce, caplog: pytest.LogCaptureFixture
) -> None:
    class Named(Reader):
        def __str__(self) -> str:
            return "channel 7 of worker-1"

    caplog.set_level(logging.DEBUG, "flinknet.partition")
    registry.request(WIRE_ID, 0, Named(), now=0.0)
    partition = produce()
    registry.request(wire_partition_id("q"), 0, Named(), now=0.0)
    registry.expire(10.0)
    partition.release()
    assert caplog.messages[:-2] == [
        "channel 7 of worker-1 waits for its partition",
        "partition p registered",
        "partition p: subpartition 0 granted to channel 7 of worker-1",
        "channel 7 of worker-1 waits for its partition",
    ]
    assert caplog.messages[-2].startswith(
        "channel 7 of worker-1 stopped waiting: the partition was not registered within 10 s"
    )
    assert caplog.messages[-1] == "partition p released"


def test_each_request_for_a_topic_has_a_partition_of_its_own(
    registry: PartitionRegistry, produce: Produce
) -> None:
    """The requested subpartition makes no difference.

    Waiting requests are answered first, and later ones wait once the topic is gone.
    """
    wire_id = wire_partition_id("topic")
    early, late, after = Reader(), Reader(), Reader()
    made: list[ResultPartition] = []

    def join() -> ResultPartition:
        made.append(produce(f"topic#{len(made)}"))
        return made[-1]

    registry.request(wire_id, 0, early, now=0.0)
    registry.register_topic("topic", join)
    registry.request(wire_id, 7, late, now=0.0)
    assert [len(reader.views) for reader in (early, late)] == [1, 1]
    assert [partition.partition_id for partition in made] == ["topic#0", "topic#1"]
    registry.forget_topic("topic")
    registry.forget_topic("topic")
    registry.request(wire_id, 0, after, now=0.0)
    assert (registry.waiting, after.views) == (1, [])


def test_a_topic_that_cannot_take_a_reader_tells_it(registry: PartitionRegistry) -> None:
    def refuse() -> ResultPartition:
        raise LocalProtocolError("no room")

    registry.register_topic("topic", refuse)
    reader = Reader()
    registry.request(wire_partition_id("topic"), 0, reader, now=0.0)
    assert [str(failure) for failure in reader.failures] == ["no room"]


def test_a_topic_has_a_name_of_its_own(registry: PartitionRegistry, produce: Produce) -> None:
    produce("p")
    registry.register_topic("topic", lambda: produce("q"))
    for name in ("p", "topic"):
        with pytest.raises(LocalProtocolError, match="already registered"):
            registry.register_topic(name, lambda: produce("q"))
        with pytest.raises(LocalProtocolError, match=f"{name} is already registered"):
            produce(name)
    registry.forget_topic("topic")
    assert produce("topic") in registry.partitions()


def test_a_registry_of_its_own_remembers_as_long_as_a_configured_one() -> None:
    """Its defaults repeat those of the configuration."""
    defaults = inspect.signature(PartitionRegistry).parameters
    config = NetworkConfig()
    assert defaults["ended_max"].default == config.ended_partitions_remembered_max
    assert defaults["ended_s"].default * 1000 == config.ended_partitions_remembered_ms
