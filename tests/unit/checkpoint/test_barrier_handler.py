"""Barriers of several channels, exactly once: aligned, unaligned, alternating."""

from __future__ import annotations

import random
from collections import deque

import pytest

from flinknet.checkpoint import barrier_handler as module
from flinknet.checkpoint.barrier_handler import (
    TRANSITIONS,
    BarrierHandler,
    BarrierState,
    BarrierStep,
)
from flinknet.checkpoint.barrier_listener import AbortReason
from flinknet.errors import RemoteProtocolError
from flinknet.wire.events import CheckpointBarrier, CheckpointOptions
from tests.unit.checkpoint.barrier_inputs import (
    ALIGNED,
    ALTERNATING,
    AT_LEAST_ONCE,
    FORCED,
    SAVEPOINT,
    TIMEOUT_MS,
    UNALIGNED,
    Inputs,
    data,
)
from tests.unit.tables import named, shown_in, way_to

# -- the table -------------------------------------------------------------------------------------


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


class Walk:
    """Walks through the state table: each step is an event at a handler of four channels."""

    def __init__(self) -> None:
        self.inputs = Inputs(4)
        assert isinstance(self.inputs.barriers, BarrierHandler)
        self.handler = self.inputs.barriers
        self.fresh = deque(range(4))

    def take(self, step: BarrierStep) -> None:
        """Cause an event of checkpoint 1, on a channel that has had none."""
        inputs = self.inputs
        match step:
            case BarrierStep.ANNOUNCE:
                inputs.announce(1, self.fresh.popleft())
            case BarrierStep.BARRIER:
                inputs.barrier(1, self.fresh.popleft())
            case BarrierStep.OVERTAKE:
                # the first with priority; the handler's own step for its channel follows
                inputs.barrier(1, self.fresh.popleft(), options=UNALIGNED)
            case BarrierStep.FINISH:
                for channel in self.fresh:
                    inputs.end(channel)
            case BarrierStep.ABORT:
                self.handler.abort(1, AbortReason.COORDINATOR)


@pytest.mark.parametrize(("state", "step"), TRANSITIONS)
def test_every_row_of_the_table(state: BarrierState, step: BarrierStep) -> None:
    walk = Walk()
    for earlier in way_to(state, BarrierState.WAITING, TRANSITIONS):
        walk.take(earlier)
    assert walk.handler.state is state
    walk.take(step)
    assert walk.handler.state is TRANSITIONS[state, step]
    walk.handler.check_invariants()


def test_a_step_that_is_not_in_the_table_changes_nothing() -> None:
    handler = BarrierHandler(Inputs(), Inputs().subtask, lambda: 0)
    with pytest.raises(AssertionError, match="FINISH"):
        handler._step(BarrierStep.FINISH)
    assert handler.state is BarrierState.WAITING


# -- aligned ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 4])
def test_without_barriers_data_passes(channels: int) -> None:
    """J1."""
    inputs = Inputs(channels)
    inputs.data(*range(channels))
    inputs.end(*range(channels))
    assert inputs.told == []
    assert inputs.barriers.checkpoint_id == -1


def test_one_channel_is_aligned_at_once() -> None:
    """J2."""
    inputs = Inputs(1)
    for number in range(1, 7):
        inputs.data(*[0] * (number % 3))
        inputs.barrier(number, 0)
        assert inputs.told == [f"take {number}", f"complete {number}"]
        assert inputs.blocked == []


def test_channels_wait_for_the_last_barrier() -> None:
    """J3."""
    inputs = Inputs(3)
    inputs.data(0, 2, 0)
    inputs.barrier(1, 1)
    inputs.barrier(1, 2)
    assert (inputs.told, inputs.blocked) == ([], [1, 2])
    inputs.data(0)
    inputs.barrier(1, 0)
    assert (inputs.told, inputs.blocked) == (["take 1", "complete 1"], [])
    inputs.barrier(2, 0, 1, 2)  # together
    inputs.barrier(3, 2, 1)
    inputs.data(0, 0)  # from one channel
    inputs.barrier(3, 0)
    inputs.barrier(4, 2, 0, 1)  # empty
    assert inputs.told == [f"{what} {n}" for n in (2, 3, 4) for what in ("take", "complete")]
    assert inputs.blocked == []


def test_metrics_of_an_alignment() -> None:
    """J5."""
    inputs = Inputs(3)
    inputs.barrier_of(1)
    inputs.data(0, 1, 2)
    inputs.pass_time(4)
    inputs.barrier(1, 1)
    inputs.data(0, 2, 0, content=b"12345")
    inputs.pass_time(10)
    inputs.barrier(1, 2, 0)
    inputs.data(0)
    assert inputs.subtask.metrics == [(4, 10, 15, 0)]


def test_late_cancel_markers_change_nothing() -> None:
    """J6."""
    inputs = Inputs(1)
    inputs.barrier(1, 0)
    inputs = Inputs(2)
    inputs.barrier(1, 0)
    inputs.cancel(3, 1)
    assert inputs.told == ["abort 1 SUBSUMED", "abort 3 CANCELLATION_BARRIER"]
    inputs.cancel(2, 0)
    inputs.cancel(3, 0)
    assert (inputs.told, inputs.blocked) == ([], [])


def test_channels_that_have_ended_have_had_every_barrier() -> None:
    """J7."""
    inputs = Inputs(4)
    inputs.end(2, 3)
    inputs.barrier(2, 0, 1)
    inputs.barrier(3, 1, 0)
    inputs.end(0)
    inputs.barrier(4, 1)
    assert inputs.told == [f"{what} {n}" for n in (2, 3, 4) for what in ("take", "complete")]
    inputs.end(1)
    assert inputs.told == []


def test_an_end_counts_as_a_barrier() -> None:
    """J8."""
    inputs = Inputs(3)
    inputs.end(1)
    inputs.barrier(1, 0)
    assert inputs.told == []
    inputs.end(2)
    assert (inputs.told, inputs.blocked) == (["take 1", "complete 1"], [])


def test_cancel_markers_of_one_channel() -> None:
    """J9."""
    inputs = Inputs(1)
    inputs.barrier(1, 0)
    inputs.barrier(2, 0)
    inputs.cancel(4, 0)
    inputs.barrier(5, 0)
    inputs.cancel(6, 0)
    assert inputs.told == [
        *("take 1", "complete 1", "take 2", "complete 2"),
        *("abort 4 CANCELLATION_BARRIER", "take 5", "complete 5", "abort 6 CANCELLATION_BARRIER"),
    ]
    assert {metrics.alignment_ms for metrics in inputs.subtask.metrics} == {0}


def test_a_cancel_marker_lets_channels_go_on() -> None:
    """J9, with more channels, and with an abort by the coordinator, which does not wait for the
    marker."""
    inputs = Inputs(3)
    inputs.barrier(1, 0, 1)
    inputs.cancel(1, 2)
    assert (inputs.told, inputs.blocked) == (["abort 1 CANCELLATION_BARRIER"], [])
    inputs.barrier(2, 0, 1)
    inputs.barriers.abort(2, AbortReason.COORDINATOR)
    assert (inputs.told, inputs.blocked) == (["abort 2 COORDINATOR"], [])
    inputs.barrier(2, 2)
    inputs.barriers.abort(2, AbortReason.COORDINATOR)
    assert (inputs.told, inputs.blocked) == ([], [])
    inputs.barriers.abort(3, AbortReason.COORDINATOR)
    inputs.barrier(3, 0, 1, 2)
    assert (inputs.told, inputs.blocked) == (["abort 3 COORDINATOR"], [])


def test_a_late_barrier_does_not_disturb_the_next_checkpoint() -> None:
    """J11."""
    inputs = Inputs(3)
    inputs.barrier(1, 0)
    inputs.cancel(1, 1)
    inputs.barrier(2, 0)
    inputs.barrier(1, 2)  # late: its channel goes on
    assert inputs.blocked == [0]
    inputs.barrier(2, 1, 2)
    assert inputs.told == ["abort 1 CANCELLATION_BARRIER", "take 2", "complete 2"]


def test_a_newer_checkpoint_subsumes() -> None:
    """J12."""
    inputs = Inputs(3)
    inputs.barrier(3, 1, 2)
    inputs.barrier(5, 0)
    assert (inputs.told, inputs.blocked) == (["abort 3 SUBSUMED"], [0])
    inputs.cancel(3, 1)
    inputs.barrier(5, 1, 2)
    assert (inputs.told, inputs.blocked) == (["take 5", "complete 5"], [])


def test_a_channel_that_ends_behind_its_barrier_counts_once() -> None:
    """J13."""
    inputs = Inputs(3)
    inputs.barrier(1, 0, 1)
    inputs.end(2)
    assert inputs.told == ["take 1", "complete 1"]
    inputs = Inputs(3)
    inputs.barrier(2, 0, options=UNALIGNED)
    inputs.end(0)
    assert inputs.told == ["take 2 unaligned"]
    inputs.barrier(2, 1, options=UNALIGNED)
    inputs.end(2)
    assert inputs.told == ["complete 2"]
    inputs.barrier(6, 1)
    inputs.barrier(7, 1)
    inputs.end(1)
    assert inputs.told == ["take 6", "complete 6", "take 7", "complete 7"]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("options", [ALIGNED, ALTERNATING, UNALIGNED])
def test_random_barriers_never_get_stuck(seed: int, options: CheckpointOptions) -> None:
    """J14: two channels with barriers at random places.

    Some barriers never come and some come late; there are 120,000 buffers over all seeds. All of
    them are always read.
    """
    chance = random.Random(seed)
    inputs = Inputs(2)
    handler = inputs.barriers
    left, sent = [1000, 1000], [0, 0]
    while any(left):
        ready = [index for index in (0, 1) if left[index] and not inputs.channels[index].blocked]
        assert ready, f"stuck with {left} buffers left"
        index = chance.choice(ready)
        left[index] -= 1
        if chance.random() < 0.02:
            sent[index] += chance.choice((1, 1, 1, 2))
            if chance.random() < 0.1:
                inputs.cancel(sent[index], index)
            else:
                inputs.barrier(sent[index], index, options=options)
        else:
            inputs.data(index)
        if not left[index] and not inputs.channels[index].blocked:
            inputs.end(index)
        if not any(left) or not left[1 - index]:
            handler.abort(handler.checkpoint_id, AbortReason.COORDINATOR)
        inputs.pass_time(chance.choice((0, 1)))
    assert inputs.blocked == []
    taken = [told for told in inputs.told if told.startswith("take")]
    assert len(taken) > 3


# -- unaligned -------------------------------------------------------------------------------------


def test_an_unaligned_checkpoint_is_taken_at_the_first_barrier() -> None:
    """K1."""
    inputs = Inputs(3)
    inputs.data(0, 2, 0)
    inputs.barrier(1, 1, options=UNALIGNED)
    assert inputs.told == ["take 1 unaligned"]
    inputs.barrier(1, 2, options=UNALIGNED)
    inputs.data(2, 1)
    inputs.data(0, content=b"in flight")
    inputs.barrier(1, 0, options=UNALIGNED)
    assert inputs.told == ["1: 0 in flight", "complete 1"]
    assert inputs.blocked == []


def test_data_before_a_channels_own_barrier_is_in_flight() -> None:
    """K2."""
    inputs = Inputs(3)
    inputs.data(0, 1, 2)
    inputs.barrier(1, 0, 1, 2, options=UNALIGNED)  # all behind the data
    inputs.barrier(2, 2, 0, 1, options=UNALIGNED)  # empty
    assert inputs.told == [
        f"{what}" for n in (1, 2) for what in (f"take {n} unaligned", f"complete {n}")
    ]
    inputs.barrier(3, 1, options=UNALIGNED)
    inputs.data(0, content=b"a")
    inputs.data(1)
    inputs.data(2, content=b"b")
    inputs.data(0, content=b"c")
    inputs.barrier(3, 0, options=UNALIGNED)
    inputs.data(0, 1)
    inputs.data(2, content=b"d")
    inputs.barrier(3, 2, options=UNALIGNED)
    inputs.data(0, 1, 2)
    assert inputs.told == [
        *("take 3 unaligned", "3: 0 a", "3: 2 b", "3: 0 c", "3: 2 d", "complete 3")
    ]


def test_overtaken_data_is_in_flight() -> None:
    """K1, K2: data that waits behind a barrier in its channel and was written before it, once."""
    inputs = Inputs(2)
    overtaken = inputs.channels[0].queued = [data(b"first"), data(b"second")]
    inputs.barrier(1, 0, options=UNALIGNED)
    assert inputs.told == ["take 1 unaligned", "1: 0 first", "1: 0 second"]
    assert [buffer.references for buffer in overtaken] == [1, 1]
    inputs.read(b"first")
    inputs.data(1, content=b"other")
    inputs.barrier(1, 1, options=UNALIGNED)
    assert inputs.told == ["1: 1 other", "complete 1"]
    assert inputs.subtask.metrics == [(0, 0, 10, 16)]


def test_metrics_of_an_unaligned_checkpoint() -> None:
    """K3."""
    inputs = Inputs(3)
    inputs.barrier_of(1)
    inputs.pass_time(3)
    inputs.barrier(1, 0, options=UNALIGNED)
    inputs.data(0, 1, 2, 0, 1, 2, content=b"12345")
    inputs.pass_time(8)
    inputs.barrier(1, 1, 2, options=UNALIGNED)
    assert inputs.subtask.metrics == [(3, 8, 30, 20)]


def test_an_end_counts_as_a_barrier_in_an_unaligned_checkpoint() -> None:
    """K4, K6: only channels that have not ended persist data."""
    inputs = Inputs(3)
    inputs.barrier(1, 0, options=UNALIGNED)
    inputs.data(1, content=b"last")
    inputs.end(1)
    inputs.data(2, content=b"more")
    inputs.end(2)
    assert inputs.told == ["take 1 unaligned", "1: 1 last", "1: 2 more", "complete 1"]
    inputs.barrier(2, 0, options=UNALIGNED)
    assert inputs.told == ["take 2 unaligned", "complete 2"]


def test_cancel_markers_of_unaligned_checkpoints() -> None:
    """K5: a marker aborts a checkpoint that was taken; a marker in front of the barrier prevents
    one."""
    inputs = Inputs(2)
    inputs.barrier(1, 0, options=UNALIGNED)
    inputs.data(1)
    inputs.cancel(1, 1)
    assert inputs.told == ["take 1 unaligned", "1: 1 data", "abort 1 CANCELLATION_BARRIER"]
    inputs.data(1)
    inputs.cancel(2, 1)
    inputs.barrier(2, 0, options=UNALIGNED)
    inputs.data(1)
    inputs.cancel(3, 0)
    inputs.cancel(3, 1)
    assert inputs.told == ["abort 2 CANCELLATION_BARRIER", "abort 3 CANCELLATION_BARRIER"]


@pytest.mark.parametrize("options", [ALIGNED, UNALIGNED])
def test_a_subtask_can_decline_what_it_is_to_take(options: CheckpointOptions) -> None:
    """K5: the abort runs before any other step of the checkpoint."""
    inputs = Inputs(2)
    inputs.channels[0].queued = inputs.channels[1].queued = [data(b"queued")]
    inputs.subtask.declines = inputs.barriers
    inputs.barrier(1, 0, 1, options=options)
    shown = " unaligned" if options is UNALIGNED else ""
    assert inputs.told == [f"take 1{shown}", "abort 1 DECLINED"]
    assert inputs.blocked == []
    assert not inputs.barriers.is_pending


def test_a_subtask_can_decline_while_it_is_handed_what_is_in_flight() -> None:
    """Later buffers of the checkpoint are recycled at once."""
    inputs = Inputs(2)
    queued = inputs.channels[0].queued = [data(b"first"), data(b"second")]
    inputs.subtask.declines_in_flight = inputs.barriers
    inputs.barrier(1, 1, options=UNALIGNED)
    assert inputs.told == ["take 1 unaligned", "1: 0 first", "abort 1 DECLINED"]
    assert [buffer.references for buffer in queued] == [1, 1]
    inputs.data(0)
    assert inputs.told == []


def test_a_channel_without_a_producer_cannot_take_part() -> None:
    """I4: the subtask declines, and its blocked channels go on."""
    inputs = Inputs(3)
    inputs.channels[2].ready = False
    inputs.barrier(1, 0, options=ALTERNATING)
    inputs.barrier(1, 1, options=UNALIGNED)
    assert inputs.told == ["take 1 unaligned", "abort 1 NOT_READY"]
    assert inputs.blocked == []


def test_no_barrier_of_a_checkpoint_comes_twice() -> None:
    inputs = Inputs(2)
    inputs.barrier(1, 0, options=UNALIGNED)
    with pytest.raises(RemoteProtocolError, match="channel 0 .* twice"):
        inputs.barrier(1, 0, options=UNALIGNED)


def test_a_job_is_exactly_once_everywhere() -> None:
    inputs = Inputs(2)
    with pytest.raises(RemoteProtocolError, match="the same mode"):
        inputs.barrier(1, 0, options=AT_LEAST_ONCE)


# -- each exchange by itself -----------------------------------------------------------------------


def test_a_forced_alignment_does_not_prevent_overtaking_on_other_exchanges() -> None:
    """O3, row 67, decided by exchange: channel 0 is forced."""
    inputs = Inputs(3)
    inputs.barrier(1, 1, options=UNALIGNED)
    inputs.data(0, content=b"before")
    inputs.barrier(1, 0, options=FORCED)
    assert inputs.blocked == []
    inputs.barrier(1, 2, options=UNALIGNED)
    assert inputs.told == ["take 1 unaligned", "1: 0 before", "complete 1"]
    inputs.barrier(2, 0, options=FORCED)
    assert inputs.blocked == [0]
    inputs.barrier(2, 1, options=UNALIGNED)
    assert inputs.blocked == []
    inputs.barrier(2, 2, options=UNALIGNED)
    assert inputs.told == ["take 2 unaligned", "complete 2"]


def test_the_barrier_that_is_passed_on_is_one_that_is_not_forced() -> None:
    """Row 67: a forced exchange would otherwise force the exchanges behind the subtask."""
    inputs = Inputs(3)
    inputs.barrier(1, 0, options=FORCED)
    inputs.barrier(1, 1, 2, options=ALTERNATING)
    inputs.barrier(2, 0, 1, 2, options=FORCED)
    assert inputs.told == ["take 1", "complete 1", "take 2 forced", "complete 2"]


# -- alternating -----------------------------------------------------------------------------------


def test_checkpoints_and_savepoints_in_turn() -> None:
    """K8: a savepoint is aligned, a checkpoint is not."""
    inputs = Inputs(2)
    for number in (1, 3):
        inputs.barrier(number, 0, options=UNALIGNED)
        inputs.barrier(number, 1, options=UNALIGNED)
        inputs.barrier(number + 1, 0, options=SAVEPOINT)
        assert inputs.blocked == [0]
        inputs.pass_time(1000)
        inputs.barrier(number + 1, 1, options=SAVEPOINT)
        assert inputs.told == [
            *(f"take {number} unaligned", f"complete {number}"),
            *(f"take {number + 1}", f"complete {number + 1}"),
        ]


def test_a_time_out_is_for_one_checkpoint() -> None:
    """K9."""
    inputs = Inputs(2)
    inputs.barrier(1, 0, options=ALTERNATING)
    inputs.pass_time(TIMEOUT_MS)
    inputs.data(1, content=b"late")
    inputs.barrier(1, 1, options=ALTERNATING)
    assert inputs.told == ["take 1 unaligned", "1: 1 late", "complete 1"]
    inputs.barrier(2, 0, options=ALTERNATING)
    inputs.pass_time(TIMEOUT_MS - 1)
    inputs.data(1)
    inputs.barrier(2, 1, options=ALTERNATING)
    assert inputs.told == ["take 2", "complete 2"]


def test_without_a_time_out_it_never_switches() -> None:
    """K10."""
    inputs = Inputs(2)
    inputs.barrier(1, 0)
    assert inputs.barriers.deadline_ms is None
    inputs.pass_time(10**9)
    inputs.barriers.on_time(inputs.now)
    assert (inputs.told, inputs.blocked) == ([], [0])


def test_an_announced_barrier_overtakes_after_the_timeout() -> None:
    """K12, K16: channel 2 has had its barrier and goes on; the barriers of the other channels
    overtake."""
    inputs = Inputs(3)
    inputs.announce(1, 0, 2)
    inputs.announced(1, 2)
    inputs.announce(1, 1)
    inputs.channels[0].queued = [data(b"zero")]
    inputs.channels[1].queued = [data(b"one")]
    inputs.pass_time(TIMEOUT_MS)
    assert inputs.told == ["take 1 unaligned", "1: 0 zero", "1: 1 one"]
    assert not any(channel.announced for channel in inputs.channels)
    assert inputs.blocked == []
    inputs.announced(1, 1)
    inputs.announced(1, 0)
    assert inputs.told == ["complete 1"]


def test_the_time_is_no_longer_than_it_says_when_the_clock_has_been_set_back() -> None:
    """The coordinator's clock may also be ahead of this one."""
    inputs = Inputs(2)
    ahead = inputs.now + 3_600_000
    options = CheckpointOptions(aligned_timeout_ms=TIMEOUT_MS)
    inputs.barriers.on_barrier(0, CheckpointBarrier(1, ahead, options), inputs.now)
    assert inputs.barriers.deadline_ms == inputs.now + TIMEOUT_MS


def test_the_time_may_be_over_before_the_first_barrier() -> None:
    """K13: with an announcement alone, followed by another one of a later channel."""
    inputs = Inputs(2)
    inputs.announce(1, 0)
    assert inputs.barriers.deadline_ms == inputs.now + TIMEOUT_MS
    inputs.pass_time(TIMEOUT_MS)
    assert inputs.told == ["take 1 unaligned"]
    inputs.data(1, content=b"early")
    inputs.announce(1, 1)
    assert not inputs.channels[1].announced
    inputs.announced(1, 0)
    inputs.announced(1, 1)
    assert inputs.told == ["1: 1 early", "complete 1"]
    inputs.barrier(2, 0, options=ALTERNATING)  # a second one, a local channel first
    inputs.announce(2, 1)
    inputs.pass_time(TIMEOUT_MS)
    inputs.announced(2, 1)
    assert inputs.told == ["take 2 unaligned", "complete 2"]


def test_a_time_out_is_seen_without_a_timer_and_taken_once() -> None:
    """K14: passive before active, and active before passive."""
    inputs = Inputs(3)
    inputs.barrier(1, 0, options=ALTERNATING)
    inputs.now += TIMEOUT_MS
    inputs.barrier(1, 1, options=ALTERNATING)
    assert inputs.told == ["take 1 unaligned"]
    inputs.barriers.on_time(inputs.now)
    inputs.barrier(1, 2, options=ALTERNATING)
    assert inputs.told == ["complete 1"]
    inputs.barrier(2, 0, options=ALTERNATING)
    inputs.pass_time(TIMEOUT_MS)
    inputs.barrier(2, 1, options=ALTERNATING)
    assert inputs.told == ["take 2 unaligned"]


def test_an_announcement_may_come_after_its_time() -> None:
    """K13, K14: the time counts from the creation of the barrier."""
    inputs = Inputs(2)
    inputs.barrier_of(1)
    inputs.pass_time(TIMEOUT_MS + 5)
    inputs.announce(1, 0)
    assert inputs.told == ["take 1 unaligned"]
    assert not inputs.channels[0].announced
    assert inputs.barriers.deadline_ms is None


def test_a_timer_that_comes_too_late_does_nothing() -> None:
    """K15: after the last barrier, and after an abort."""
    inputs = Inputs(2)
    inputs.barrier(1, 0, 1, options=ALTERNATING)
    inputs.barrier(2, 0, options=ALTERNATING)
    inputs.cancel(2, 1)
    assert inputs.told == ["take 1", "complete 1", "abort 2 CANCELLATION_BARRIER"]
    assert inputs.barriers.deadline_ms is None
    inputs.barriers.on_time(inputs.now + 1000)
    inputs.announce(2, 0)  # late
    assert inputs.told == []


def test_an_upstream_that_has_switched_switches_this_one() -> None:
    """K17."""
    inputs = Inputs(3)
    inputs.announce(1, 1)
    inputs.barrier(1, 0, options=ALTERNATING)
    inputs.channels[2].queued = [data(b"one"), data(b"two")]
    inputs.barrier(1, 2, options=UNALIGNED)
    assert inputs.told == ["take 1 unaligned", "1: 2 one", "1: 2 two"]
    assert inputs.blocked == []
    inputs.announced(1, 1)
    assert inputs.told == ["complete 1"]


def test_an_end_after_the_deadline_switches() -> None:
    """K18."""
    inputs = Inputs(3)
    inputs.barrier(1, 0, options=ALTERNATING)
    inputs.now += TIMEOUT_MS
    inputs.end(1)
    assert inputs.told == ["take 1 unaligned"]
    inputs.barrier(1, 2, options=ALTERNATING)
    assert inputs.told == ["complete 1"]


def test_an_end_begins_an_alignment_that_was_announced() -> None:
    """K18: announcement, end, barrier (FLINK-24068)."""
    inputs = Inputs(2)
    inputs.announce(1, 0)
    inputs.pass_time(3)
    inputs.end(1)
    inputs.pass_time(4)
    inputs.announced(1, 0)
    assert inputs.told == ["take 1", "complete 1"]
    assert inputs.subtask.metrics == [(0, 4, 0, 0)]


def test_metrics_of_alternating_checkpoints() -> None:
    """K19: delays run to the first sign, durations from the first barrier."""
    inputs = Inputs(2)
    inputs.barrier_of(1)
    inputs.pass_time(6)
    inputs.announce(1, 0)
    inputs.pass_time(3)
    inputs.read(b"12345")
    inputs.announced(1, 0)
    inputs.data(1, content=b"12345")
    inputs.pass_time(5)
    inputs.data(1, content=b"12345")
    inputs.barrier(1, 1, options=ALTERNATING)
    assert inputs.told == ["take 1 unaligned", "1: 1 12345", "complete 1"]
    inputs.barrier_of(2)
    inputs.pass_time(5)
    inputs.barrier(2, 0, options=ALTERNATING)
    inputs.data(1, content=b"123")
    inputs.barrier(2, 1, options=ALTERNATING)
    assert inputs.subtask.metrics == [(6, 5, 10, 5), (5, 0, 3, 0)]


def test_a_checkpoint_behind_a_savepoint_lets_both_channels_go() -> None:
    """K20: the savepoint is subsumed, and never complete."""
    inputs = Inputs(2)
    inputs.barrier(1, 0, options=SAVEPOINT)
    inputs.barrier(2, 1, options=UNALIGNED)
    assert inputs.blocked == []
    inputs.barrier(2, 0, options=UNALIGNED)
    assert inputs.told == ["abort 1 SUBSUMED", "take 2 unaligned", "complete 2"]
    inputs.barrier(1, 1, options=SAVEPOINT)
    assert (inputs.told, inputs.blocked) == ([], [])


def test_barriers_out_of_order() -> None:
    """K21: an older barrier is ignored, and so is a marker that a newer barrier has overtaken.

    The alignment of the new checkpoint goes on with its channels.
    """
    inputs = Inputs(2)
    inputs.barrier(1, 0, options=UNALIGNED)
    inputs.barrier(3, 0, options=UNALIGNED)
    inputs.pass_time(7)
    inputs.cancel(1, 1)
    inputs.barrier(2, 1, options=UNALIGNED)
    inputs.data(1, content=b"between")
    inputs.barrier(3, 1, options=UNALIGNED)
    assert inputs.told == [
        *("take 1 unaligned", "abort 1 SUBSUMED"),
        *("take 3 unaligned", "3: 1 between", "complete 3"),
    ]
    assert inputs.subtask.metrics == [(0, 7, 7, 7)]


# -- triggered -------------------------------------------------------------------------------------


def test_the_coordinator_triggers_a_subtask_whose_inputs_have_finished() -> None:
    """Row 62: the upstream subtasks have finished, and only the ends of their partitions are still
    to come."""
    inputs = Inputs(2)
    inputs.end(0)
    inputs.barriers.on_trigger(inputs.barrier_of(1), inputs.now)
    inputs.end(1)
    inputs.barriers.on_trigger(inputs.barrier_of(2), inputs.now)
    inputs.barriers.on_trigger(inputs.barrier_of(2), inputs.now)
    assert inputs.told == ["take 1", "complete 1", "take 2", "complete 2"]
