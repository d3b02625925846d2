"""O1: the channel state of a checkpoint, for the outputs step by step.

``test_subtask_checkpoints.py`` tests it for jobs, with inputs as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from flinknet.config import CheckpointingConfig
from flinknet.environment.processing_time import wall_clock_ms
from flinknet.errors import CheckpointError, ClosedResourceError, LocalProtocolError
from flinknet.runtime.channel_capture import ChannelCapture
from flinknet.wire.events import Alignment, CheckpointBarrier, CheckpointOptions
from tests.unit.arrangements import assert_everything_returned, run, take
from tests.unit.records.writing import Arranged

UNALIGNED = CheckpointOptions(alignment=Alignment.UNALIGNED)
SOON = CheckpointOptions(aligned_timeout_ms=1)
LATER = CheckpointOptions(aligned_timeout_ms=600_000)


class Outputs:
    """A capture of the outputs of two writers, each with an unread record."""

    def __init__(self, count: int = 2) -> None:
        self.arranged = [Arranged() for _ in range(count)]
        for number, one in enumerate(self.arranged):
            run(one.writer.emit(f"record {number}"))
        writers = [one.writer for one in self.arranged]
        self.capture = ChannelCapture("subtask 0 of vertex 0", CheckpointingConfig(), None, writers)


@pytest.fixture
def outputs() -> Iterator[Outputs]:
    made = Outputs()
    yield made
    made.capture.close()
    for one in made.arranged:
        one.writer.close()
        one.partition.release()
        assert_everything_returned(one.pool)


async def test_an_aligned_checkpoint_stores_nothing(outputs: Outputs) -> None:
    assert outputs.capture.begin(CheckpointBarrier(1, 1)) is None
    view = outputs.arranged[0].views[0]
    assert take(view) is not None, "it has overtaken nothing"


async def test_an_unaligned_one_stores_at_once_what_it_overtakes(outputs: Outputs) -> None:
    in_flight = outputs.capture.begin(CheckpointBarrier(1, 1, UNALIGNED))
    assert in_flight is not None
    assert not in_flight.done(), "inputs are still open"
    outputs.capture.complete_input(1)
    state = in_flight.result()
    assert {label: b"".join(chunks) for label, chunks in state.output.items()} == {
        (0, 0): b"\xa8record 0",
        (1, 0): b"\xa8record 1",
    }
    assert not state.input


async def test_a_chain_without_outputs_captures_only_inputs() -> None:
    capture = Outputs(0).capture
    in_flight = capture.begin(CheckpointBarrier(1, 1, UNALIGNED))
    assert in_flight is not None
    capture.complete_input(1)
    assert in_flight.result() == ({}, {})
    capture.close()


@pytest.mark.parametrize("ahead_ms", [0, 3_600_000])
async def test_a_timeoutable_barrier_is_settled_by_its_readers_or_its_timer(
    outputs: Outputs, ahead_ms: int
) -> None:
    """This holds even if the clock has been set back since its barrier was made."""
    in_flight = outputs.capture.begin(CheckpointBarrier(1, wall_clock_ms() + ahead_ms, SOON))
    assert in_flight is not None
    outputs.capture.complete_input(1)
    view = outputs.arranged[0].views[0]
    taken = [take(view), take(view)]
    assert None not in taken, "the record, and the barrier behind it"
    state = await in_flight
    assert {label: b"".join(chunks) for label, chunks in state.output.items() if chunks} == {
        (1, 0): b"\xa8record 1"
    }


async def test_an_aborted_barrier_stays_in_the_queue(outputs: Outputs) -> None:
    """O1: aborting it a second time is safe."""
    in_flight = outputs.capture.begin(CheckpointBarrier(1, wall_clock_ms(), LATER))
    assert in_flight is not None
    outputs.capture.abort(1, "somebody wants it")
    outputs.capture.abort(1, "again")
    with pytest.raises(CheckpointError, match="aborted: somebody wants it"):
        in_flight.result()


async def test_a_partition_that_goes_gives_it_up(outputs: Outputs) -> None:
    in_flight = outputs.capture.begin(CheckpointBarrier(1, wall_clock_ms(), LATER))
    assert in_flight is not None
    outputs.arranged[0].partition.release()
    with pytest.raises(CheckpointError, match="its barrier was aborted in an output"):
        in_flight.result()
    outputs.arranged[1].partition.release()


async def test_the_next_one_gives_up_the_one_before(outputs: Outputs) -> None:
    """O1: the older checkpoint is aborted, and the new one starts."""
    first = outputs.capture.begin(CheckpointBarrier(1, wall_clock_ms(), LATER))
    second = outputs.capture.begin(CheckpointBarrier(2, wall_clock_ms(), UNALIGNED))
    assert first is not None
    assert second is not None
    outputs.capture.complete_input(2)
    assert len(second.result().output) == 2
    with pytest.raises(CheckpointError, match="subsumed"):
        first.result()


@pytest.mark.parametrize("options", [CheckpointOptions(), UNALIGNED])
async def test_an_output_that_has_ended_gets_no_barrier(
    outputs: Outputs, options: CheckpointOptions
) -> None:
    """O2: its end tells the reader the same, and there is no data that a barrier could overtake."""
    partition = outputs.arranged[1].partition
    partition.notify_end_of_data()
    view = outputs.arranged[1].views[0]
    while take(view) is not None:
        pass
    view.acknowledge_all_data_processed()
    partition.finish()
    in_flight = outputs.capture.begin(CheckpointBarrier(1, 1, options))
    assert outputs.arranged[1].partition.subpartitions[0].events_queued == 1
    assert outputs.arranged[0].partition.subpartitions[0].events_queued == 1
    if options is UNALIGNED:
        assert in_flight is not None
        outputs.capture.complete_input(1)
        assert len(in_flight.result().output) == 1
    else:
        assert in_flight is None


async def test_a_barrier_that_cannot_be_written_leaves_nothing_behind(outputs: Outputs) -> None:
    outputs.arranged[1].partition.close()
    with pytest.raises(LocalProtocolError):
        outputs.capture.begin(CheckpointBarrier(1, 1, UNALIGNED))


async def test_closing_ends_what_is_under_way(outputs: Outputs) -> None:
    in_flight = outputs.capture.begin(CheckpointBarrier(1, wall_clock_ms(), LATER))
    assert in_flight is not None
    outputs.capture.close()
    outputs.capture.close()
    with pytest.raises(CheckpointError, match="has ended"):
        await asyncio.wait_for(in_flight, 1)
    with pytest.raises(ClosedResourceError):
        outputs.capture.begin(CheckpointBarrier(2, wall_clock_ms(), UNALIGNED))
