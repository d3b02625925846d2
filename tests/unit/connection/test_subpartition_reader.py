"""The producer's end of one channel: its output, and the consumer's messages to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinknet.buffer.buffer import DataType
from flinknet.connection import subpartition_reader as module
from flinknet.connection.subpartition_reader import (
    TRANSITIONS,
    ReaderEvent,
    ReaderState,
    SubpartitionReader,
)
from flinknet.errors import PartitionNotFoundError, RemoteProtocolError
from flinknet.wire.events import CheckpointBarrier, CheckpointOptions
from tests.unit.arrangements import (
    assert_everything_returned,
    event_of,
    finish,
    make_partition,
    put,
)
from tests.unit.tables import named, shown_in, way_to

CREDIT_MAX = 100
EVENTS_MAX = 20
BARRIER = DataType.ALIGNED_CHECKPOINT_BARRIER


class Owner:
    """A ReaderOwner that records its calls and queues no reader."""

    def __init__(self) -> None:
        self.peer = "consumer at 127.0.0.1:7002"
        self.available = 0
        self.failures: list[BaseException] = []
        self.announced: list[int] = []

    def on_reader_available(self, reader: SubpartitionReader) -> None:
        self.available += 1

    def on_channel_failed(self, channel: int, cause: BaseException) -> None:
        self.failures.append(cause)

    def announce_backlog(self, reader: SubpartitionReader, backlog: int) -> None:
        self.announced.append(backlog)


S, E = ReaderState, ReaderEvent


# -- the table -------------------------------------------------------------------------------------


def happens(reading: Reading, event: ReaderEvent) -> None:
    """Cause an event at a reader, by an action of its partition or its consumer."""
    reader = reading.reader
    match event:
        case E.GRANT:
            reading.grant()
        case E.BLOCK:
            reading.add(BARRIER)
            assert reading.send() is BARRIER
        case E.RESUME:
            reader.resume_consumption()
        case E.END:
            assert reading.end()[-1] is DataType.END_OF_PARTITION
        case E.FAIL if reader.state is S.WAITING:
            reader.on_request_failed(ValueError("boom"))
        case E.FAIL:
            reading.partition.fail(ValueError("boom"))
        case E.RELEASE:
            reader.release()


@pytest.mark.parametrize("event", E)
@pytest.mark.parametrize("state", S)
def test_every_pair_of_state_and_event(state: ReaderState, event: ReaderEvent) -> None:
    reading = Reading(credit=2, granted=False)
    for step in way_to(state, S.WAITING, TRANSITIONS):
        happens(reading, step)
    assert reading.reader.state is state
    if (state, event) in TRANSITIONS:
        happens(reading, event)
        assert reading.reader.state is TRANSITIONS[state, event]
    else:
        with pytest.raises(AssertionError, match="must not happen"):
            reading.reader._become(event)
        assert reading.reader.state is state
    live = (S.WAITING, S.READING, S.BLOCKED)
    assert reading.reader.done is (reading.reader.state not in live)
    reading.close()


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


class Reading:
    """A reader of the only subpartition of a partition."""

    def __init__(self, credit: int, *, granted: bool = True, events_max: int = EVENTS_MAX) -> None:
        self.owner = Owner()
        self.partition, self.pool = make_partition()
        self.reader = SubpartitionReader(self.owner, 0, credit, CREDIT_MAX, events_max=events_max)
        if granted:
            self.grant()

    def grant(self) -> None:
        self.reader.on_view_created(self.partition.create_view(0, self.reader))

    def write(self, content: bytes = b"data") -> None:
        put(self.partition, 0, content)
        self.partition.subpartitions[0].seal_open()

    def add(self, data_type: DataType) -> None:
        self.partition.subpartitions[0].add_event(event_of(data_type))

    def send(self) -> DataType | None:
        polled = self.reader.poll()
        if polled is None:
            return None
        polled.buffer.recycle()
        return polled.buffer.data_type

    def end(self) -> list[DataType]:
        """End the data and the partition, acknowledge as the consumer, and return the sent
        types."""
        self.partition.notify_end_of_data()
        sent = self.send_all()
        self.reader.acknowledge_all_data_processed()
        self.partition.finish()
        return sent + self.send_all()

    def send_all(self) -> list[DataType]:
        sent = []
        while (data_type := self.send()) is not None:
            sent.append(data_type)
        return sent

    def close(self) -> None:
        self.reader.release()
        self.partition.release()
        assert_everything_returned(self.pool)


DATA = DataType.DATA_BUFFER_WITH_CLEAR_END


def acknowledged(reading: Reading) -> bool:
    return reading.partition.all_data_processed.available


# -- credit ----------------------------------------------------------------------------------------


def test_an_event_needs_no_credit() -> None:
    """E1."""
    reading = Reading(credit=0)
    reading.add(DataType.EVENT_BUFFER)
    assert reading.reader.available()
    assert reading.owner.available == 1
    assert reading.send_all() == [DataType.EVENT_BUFFER]
    assert reading.reader.credit == 0
    reading.close()


def test_data_needs_credit() -> None:
    """E2: with 5 buffers and no credit, each credit sends one buffer, and data is left."""
    reading = Reading(credit=0)
    for _ in range(5):
        reading.write()
    assert not reading.reader.available()
    assert reading.send() is None
    for _ in range(3):
        reading.reader.add_credit(1)
        assert reading.send_all() == [DATA]
    assert reading.reader.statistics().backlog == 2
    reading.close()


def test_every_data_buffer_costs_one_credit_and_no_event_does() -> None:
    reading = Reading(credit=3)
    reading.write()
    reading.add(DataType.EVENT_BUFFER)
    reading.write()
    assert reading.send_all() == [DATA, DataType.EVENT_BUFFER, DATA]
    assert reading.reader.credit == 1
    reading.close()


def test_events_behind_unpaid_data_wait_with_it() -> None:
    reading = Reading(credit=1)
    reading.write()
    reading.write()
    reading.add(DataType.EVENT_BUFFER)
    assert reading.send_all() == [DATA]
    reading.reader.add_credit(1)
    assert reading.send_all() == [DATA, DataType.EVENT_BUFFER]
    reading.close()


@pytest.mark.parametrize("credit", [0, CREDIT_MAX - 1, CREDIT_MAX, 2**32 - 1])
def test_an_impossible_credit_breaks_the_protocol(credit: int) -> None:
    reading = Reading(credit=2)
    with pytest.raises(RemoteProtocolError, match=f"a credit of {credit} to channel 0"):
        reading.reader.add_credit(credit)
    assert reading.reader.credit == 2
    reading.close()


def test_credit_may_reach_its_limit() -> None:
    reading = Reading(credit=2)
    reading.reader.add_credit(CREDIT_MAX - 2)
    assert reading.reader.credit == CREDIT_MAX
    reading.close()


# -- the backlog of a channel without exclusive buffers --------------------------------------------


def test_only_a_reader_that_began_without_credit_announces_its_backlog() -> None:
    """E4, E10."""
    for initial, announced in ((0, [1]), (2, [])):
        reading = Reading(credit=initial)
        if initial:
            reading.write()
            reading.write()
            assert reading.send_all() == [DATA, DATA]
        assert reading.reader.credit == 0
        reading.write()
        assert reading.owner.announced == announced
        reading.close()


def test_a_reader_with_credit_has_no_need_to_announce() -> None:
    """E10: (0: yes, +2: no, spent: yes)."""
    reading = Reading(credit=0)
    reading.write()
    assert reading.owner.announced == [1]
    reading.reader.add_credit(2)
    assert reading.send_all() == [DATA]
    reading.write()
    assert reading.owner.announced == [1]
    assert reading.send_all() == [DATA]
    reading.write()
    assert reading.owner.announced == [1, 1]
    reading.close()


def test_the_announced_backlog_is_the_subpartitions() -> None:
    """E4."""
    owner = Owner()
    partition, pool = make_partition()
    for _ in range(3):
        put(partition, 0, b"data")
    partition.subpartitions[0].seal_open()
    reader = SubpartitionReader(owner, 0, 0, CREDIT_MAX, events_max=EVENTS_MAX)
    reader.on_view_created(partition.create_view(0, reader))
    assert owner.announced == [3]
    reader.release()
    partition.release()
    assert_everything_returned(pool)


def test_nothing_is_announced_for_a_buffer_that_is_still_being_filled() -> None:
    reading = Reading(credit=0)
    put(reading.partition, 0, b"data")
    assert reading.owner.announced == []
    reading.partition.flush(0)
    assert reading.owner.announced == [1]
    reading.close()


# -- blocking events -------------------------------------------------------------------------------


def test_nothing_passes_a_blocking_event_until_it_is_answered() -> None:
    """E3."""
    reading = Reading(credit=2)
    reading.add(BARRIER)
    reading.write()
    assert reading.send_all() == [BARRIER]
    assert not reading.reader.available()
    reading.reader.resume_consumption()
    assert reading.send_all() == [DATA]
    reading.close()


@pytest.mark.parametrize(("initial", "left"), [(0, 0), (2, 3)])
def test_a_resume_without_exclusive_buffers_starts_from_no_credit(initial: int, left: int) -> None:
    """E11."""
    reading = Reading(credit=initial)
    reading.reader.add_credit(left - initial or 1)
    reading.add(BARRIER)
    assert reading.send_all() == [BARRIER]
    reading.reader.resume_consumption()
    assert reading.reader.credit == left
    reading.close()


def test_after_a_resume_without_credit_the_backlog_is_announced_again() -> None:
    """E10, E11."""
    reading = Reading(credit=0)
    reading.add(BARRIER)
    reading.write()
    reading.write()
    assert reading.send_all() == [BARRIER]
    assert reading.owner.announced == []
    reading.reader.resume_consumption()
    assert reading.owner.announced == [2]
    reading.close()


# -- unexpected answers ----------------------------------------------------------------------------

ILLEGAL = {
    "resume before anything was sent": "resume",
    "resume after data": "data send resume",
    "resume while the blocking event waits": "barrier resume",
    "resume twice": "barrier send resume resume",
    "acknowledge before anything was sent": "acknowledge",
    "acknowledge after data": "data send acknowledge",
    "acknowledge while the end of data waits": "end acknowledge",
    "acknowledge twice": "end send acknowledge acknowledge",
}


@pytest.mark.parametrize("answer", ILLEGAL)
def test_an_answer_to_what_was_not_sent_breaks_the_protocol(answer: str) -> None:
    reading = Reading(credit=2)
    steps: dict[str, Callable[[], object]] = {
        "data": reading.write,
        "barrier": lambda: reading.add(BARRIER),
        "end": reading.partition.notify_end_of_data,
        "send": reading.send_all,
        "resume": reading.reader.resume_consumption,
        "acknowledge": reading.reader.acknowledge_all_data_processed,
    }
    *before, last = ILLEGAL[answer].split()
    for step in before:
        steps[step]()
    with pytest.raises(RemoteProtocolError, match=r"the peer resumed|the acknowledgement of all"):
        steps[last]()
    reading.close()


def test_the_end_of_data_is_acknowledged_to_the_partition() -> None:
    """E12."""
    reading = Reading(credit=2)
    reading.partition.notify_end_of_data()
    assert reading.send_all() == [DataType.END_OF_DATA]
    assert not acknowledged(reading)
    reading.reader.acknowledge_all_data_processed()
    assert acknowledged(reading)
    reading.close()


def test_an_acknowledgement_may_come_after_a_failure() -> None:
    """It may have been sent before the failure arrived.

    It is allowed once, and only after the end of data.
    """
    reading = Reading(credit=2)
    reading.partition.notify_end_of_data()
    reading.send_all()
    reading.partition.fail(ValueError("boom"))
    reading.reader.acknowledge_all_data_processed()
    with pytest.raises(RemoteProtocolError, match="the peer's channel 0: .* has been acknowl"):
        reading.reader.acknowledge_all_data_processed()
    reading.close()


def test_sequence_numbers_are_in_order_for_any_view() -> None:
    """A wrong order is a programming error of this side, which would otherwise look like the peer's
    fault."""
    reading = Reading(credit=2)
    finish(reading.partition)
    assert reading.send() is DataType.END_OF_DATA
    with pytest.raises(AssertionError, match="END_OF_PARTITION must not arrive on channel 0"):
        reading.send()
    reading.close()


# -- life ------------------------------------------------------------------------------------------


def waiting_reader(owner: Owner) -> SubpartitionReader:
    return SubpartitionReader(owner, 0, 2, CREDIT_MAX, events_max=EVENTS_MAX)


def test_a_reader_waits_for_its_partition() -> None:
    owner = Owner()
    reader = waiting_reader(owner)
    assert not reader.available()
    assert reader.poll() is None
    reader.notify_data_available()
    reader.notify_new_buffer_size(10)
    reader.add_credit(1)
    assert (owner.available, owner.announced, owner.failures) == (0, [], [])
    assert reader.statistics() == (0, 3, 0, False, False)
    with pytest.raises(RemoteProtocolError):
        reader.resume_consumption()
    with pytest.raises(RemoteProtocolError):
        reader.acknowledge_all_data_processed()


def test_a_request_that_failed_is_told_once() -> None:
    """E9."""
    owner = Owner()
    reader = waiting_reader(owner)
    cause = PartitionNotFoundError("gone")
    reader.on_request_failed(cause)
    reader.on_request_failed(PartitionNotFoundError("gone again"))
    assert owner.failures == [cause]
    assert reader.done


def test_the_producers_failure_is_told_once_and_nothing_follows() -> None:
    reading = Reading(credit=2)
    reading.write()
    reading.partition.fail(ValueError("boom"))
    reading.reader.notify_data_available()
    assert [str(failure) for failure in reading.owner.failures] == [
        "the producer failed: ValueError: boom"
    ]
    assert reading.send_all() == []
    reading.close()


def test_a_failed_or_ended_reader_still_takes_credit() -> None:
    """The consumer may have sent the credit before the failure or the end arrived."""
    for fails in (True, False):
        reading = Reading(credit=2)
        if fails:
            reading.partition.fail(ValueError("boom"))
        else:
            reading.end()
        assert reading.reader.done
        reading.reader.add_credit(1)
        reading.reader.notify_new_buffer_size(32)
        assert reading.send_all() == []
        reading.close()


def test_a_blocked_reader_whose_producer_failed_may_be_resumed() -> None:
    """The consumer may have sent the resume before the failure arrived; no message answers it."""
    reading = Reading(credit=2)
    reading.add(BARRIER)
    reading.send_all()
    reading.partition.fail(ValueError("boom"))
    reading.reader.resume_consumption()
    assert reading.send_all() == []
    reading.close()


def test_the_end_of_the_partition_lets_go_of_the_subpartition() -> None:
    reading = Reading(credit=0)
    assert reading.end() == [DataType.END_OF_DATA, DataType.END_OF_PARTITION]
    assert reading.reader.done
    assert reading.partition.released
    reading.close()


def test_a_cancelled_reader_gives_back_what_is_queued_for_it() -> None:
    """E5."""
    reading = Reading(credit=2)
    reading.write()
    reading.write()
    reading.reader.release()
    assert reading.send_all() == []
    assert reading.partition.cancelled
    reading.close()


def test_a_new_buffer_size_holds_for_new_buffers() -> None:
    """E6: the open buffer keeps its size."""
    reading = Reading(credit=9)
    first = put(reading.partition, 0, b"x" * 10)
    reading.reader.notify_new_buffer_size(20)
    assert first.remaining == 54
    assert put(reading.partition, 0, b"x" * 10).remaining == 10
    reading.close()


def test_a_new_buffer_size_that_comes_before_the_partition_holds_for_it() -> None:
    reading = Reading(credit=9, granted=False)
    reading.reader.notify_new_buffer_size(20)
    reading.grant()
    assert put(reading.partition, 0, b"x" * 10).remaining == 10
    reading.close()


def test_a_reader_that_was_available_and_is_not_any_more_has_nothing() -> None:
    """E7."""
    reading = Reading(credit=2)
    reading.write()
    assert reading.owner.available == 1
    reading.partition.fail(ValueError("boom"))
    assert reading.reader.poll() is None
    reading.close()


def test_the_cause_of_a_loss_reaches_the_partition() -> None:
    """E14."""
    reading = Reading(credit=2)
    cause = ConnectionError("reset")
    reading.reader.release(cause)
    reading.reader.release()
    assert reading.partition.lost is cause
    reading.close()


def test_a_reader_says_whose_it_is() -> None:
    """The log names the reader like this when its request waits for the partition."""
    assert str(Reading(credit=1).reader) == "channel 0 of consumer at 127.0.0.1:7002"


def test_a_reader_that_needs_no_credit_sends_without_any() -> None:
    owner = Owner()
    partition, pool = make_partition()
    reader = SubpartitionReader(owner, 0, 0, CREDIT_MAX, events_max=EVENTS_MAX, needs_credit=False)
    reader.on_view_created(partition.create_view(0, reader))
    put(partition, 0, b"data")
    partition.subpartitions[0].seal_open()
    assert (owner.available, owner.announced) == (1, [])
    polled = reader.poll()
    assert polled is not None
    polled.buffer.recycle()
    assert reader.credit == 0
    reader.release()
    partition.release()
    assert_everything_returned(pool)


def test_a_reader_that_was_refused_sends_nothing() -> None:
    reader = waiting_reader(Owner())
    reader.refuse()
    assert reader.state is S.DONE
    assert not reader.available()
    assert reader.poll() is None


def test_a_barrier_that_gets_priority_needs_no_credit() -> None:
    """Row 18: before its time is over, it waits behind data without credit."""
    reading = Reading(credit=0)
    reading.write()
    told: list[Any] = []
    barrier = CheckpointBarrier(1, 0, CheckpointOptions(aligned_timeout_ms=10))
    reading.partition.broadcast_barrier(barrier, told.append)
    available = reading.owner.available
    assert reading.send() is None
    reading.partition.abort_barrier(2)
    reading.partition.time_out_barrier(1)
    assert reading.owner.available == available + 1
    assert reading.send() is DataType.PRIORITIZED_EVENT_BUFFER
    assert reading.send() is None
    assert reading.reader.state is S.READING
    for buffer in told[0][0]:
        buffer.recycle()
    reading.close()


# -- event credit ----------------------------------------------------------------------------------


def test_events_wait_for_event_credit_and_so_does_what_stands_behind_them() -> None:
    """SPEC 6.2: with a limit of 20, each event that the consumer has taken lets one more go.

    Data has credit of its own.
    """
    reading = Reading(10)
    for _ in range(EVENTS_MAX + 5):
        reading.partition.subpartitions[0].add_event(event_of(DataType.EVENT_BUFFER, b"user"))
    reading.write()
    sent = []
    while (data_type := reading.send()) is not None:
        sent.append(data_type)
    reserved = EVENTS_MAX // 10
    assert sent == [DataType.EVENT_BUFFER] * (EVENTS_MAX - reserved)
    assert reading.reader.event_credit == reserved
    assert not reading.reader.available()
    told = reading.owner.available
    reading.reader.add_event_credit(3)
    assert reading.owner.available == told + 1
    assert [reading.send() for _ in range(4)] == [DataType.EVENT_BUFFER] * 3 + [None]
    reading.reader.add_event_credit(10)
    rest = [reading.send() for _ in range(6)]
    data = DataType.DATA_BUFFER_WITH_CLEAR_END
    assert rest == [*[DataType.EVENT_BUFFER] * 4, data, None]
    reading.close()


def test_some_event_credit_is_kept_for_events_that_overtake() -> None:
    """A busy consumer still gets a barrier, but never more events than it may hold."""
    reading = Reading(0)
    for _ in range(EVENTS_MAX):
        reading.partition.subpartitions[0].add_event(event_of(DataType.EVENT_BUFFER, b"user"))
    while reading.send() is not None:
        pass
    for _ in range(EVENTS_MAX):
        reading.add(DataType.PRIORITIZED_EVENT_BUFFER)
    sent = [reading.send() for _ in range(3)]
    assert sent == [*[DataType.PRIORITIZED_EVENT_BUFFER] * 2, None]
    assert reading.reader.event_credit == 0
    reading.close()


@pytest.mark.parametrize("events", [0, 2, 2**32 - 1])
def test_event_credit_for_what_was_not_sent_is_a_violation(events: int) -> None:
    reading = Reading(1)
    reading.add(DataType.EVENT_BUFFER)
    assert reading.send() is DataType.EVENT_BUFFER
    with pytest.raises(
        RemoteProtocolError, match=f"acknowledged {events} events of channel 0, but"
    ):
        reading.reader.add_event_credit(events)
    reading.reader.add_event_credit(1)
    with pytest.raises(RemoteProtocolError, match="not yet acknowledged is 0"):
        reading.reader.add_event_credit(1)
    reading.close()
