"""Debloating: the sizes that a gate announces, its throughput, and how a size follows from it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet.buffer.network_pool import NetworkBufferPool
from flinknet.config import BufferDebloatConfig, NetworkConfig
from flinknet.consumer.debloating import BufferDebloater, ThroughputCalculator
from flinknet.consumer.input_channel import UnknownLocation
from flinknet.consumer.input_gate import InputGate
from flinknet.errors import ConfigurationError
from flinknet.partition.registry import PartitionRegistry
from tests.unit.arrangements import (
    HERE,
    THERE,
    Client,
    assert_everything_returned,
    connect_local,
    deliver,
    end,
    make_config,
    make_gate,
    make_partition,
    put,
)

# -- gates ----------------------------------------------------------------------------------------


SEGMENT_BYTES = 1000


def debloating(**options: Any) -> BufferDebloatConfig:
    """Make a debloating configuration that follows every value at once."""
    return BufferDebloatConfig(
        **{"enabled": True, "target_ms": 1000, "samples": 1, "segment_bytes_min": 10, **options}
    )


def make_debloating_gate(
    *addresses: str, client: Client | None = None, **options: Any
) -> tuple[InputGate, NetworkBufferPool]:
    gate, pool = make_gate(
        *addresses,
        segment_bytes=SEGMENT_BYTES,
        pool=NetworkBufferPool(64, SEGMENT_BYTES),
        client=client,
        debloat=debloating(**options),
    )
    gate.debloating.end_wait(0.0)
    return gate, pool


def receive(gate: InputGate, channel: int, size: int, *, backlog: int = 0) -> None:
    """Deliver data to a channel and process it."""
    remote = gate.remote_channels[channel]
    deliver(remote, remote.buffers_in, bytes(size), backlog=backlog)
    polled = gate.poll()
    assert polled is not None
    polled[1].recycle()
    remote.credit.take()


def sizes_told(client: Client) -> list[tuple[str, int]]:
    return [message for message in client.sent if message[0].startswith("size")]


def test_the_size_is_told_to_every_channel_that_goes_on() -> None:
    """I9: a finished channel gets no announcement."""
    client = Client()
    gate, pool = make_debloating_gate(THERE, THERE, THERE, client=client)
    receive(gate, 0, 300)
    end(gate, 1)
    gate.poll()
    gate.debloating.recalculate(1.0)
    assert sizes_told(client) == [("size 303", 0), ("size 303", 2)]
    gate.release()
    assert_everything_returned(pool)


def test_buffers_in_use_are_summed() -> None:
    """I10: the sum covers all channels, including unknown and local ones."""
    gate, pool = make_debloating_gate(THERE, HERE, THERE)
    partition, _ = make_partition(pool=pool, partition_id="p1")
    registry = PartitionRegistry(10.0)
    registry.register(partition)
    connect_local(gate, registry)
    assert gate.debloating.buffers_in_use == 0
    deliver(gate.remote_channels[0], 0, backlog=3)
    deliver(gate.remote_channels[1], 0)
    for _ in range(3):
        put(partition, 0, b"data")
    assert gate.debloating.buffers_in_use == 4 + 1 + 2
    gate.release()
    assert gate.debloating.buffers_in_use == 0
    partition.release()


def test_the_more_buffers_are_on_their_way_the_smaller_they_are_to_be() -> None:
    """Census 1.8, P2: bytes that a slow reader cannot consume within the target must not be
    sent."""
    client = Client()
    gate, _ = make_debloating_gate(THERE, client=client)
    receive(gate, 0, 800, backlog=4)
    assert gate.debloating.buffers_in_use == 4
    gate.debloating.recalculate(1.0)
    assert sizes_told(client) == [("size 200", 0)]
    debloater = gate.statistics().debloating
    assert debloater == (200, 1000.0)


def test_the_time_in_which_the_reader_waits_does_not_count() -> None:
    """P3, at the gate."""
    client = Client()
    gate, _ = make_debloating_gate(THERE, client=client)
    receive(gate, 0, 300)
    gate.debloating.begin_wait(1.0)
    gate.debloating.end_wait(100.0)
    gate.debloating.recalculate(100.0)
    assert sizes_told(client) == [("size 300", 0)]


def test_a_reader_that_is_fast_again_gets_full_buffers_again() -> None:
    client = Client()
    gate, _ = make_debloating_gate(THERE, client=client)
    receive(gate, 0, 400)
    gate.debloating.recalculate(1.0)
    for now in (1.001, 1.002, 1.003):
        receive(gate, 0, 400)
        gate.debloating.recalculate(now)
    assert sizes_told(client) == [("size 400", 0), ("size 800", 0), ("size 1000", 0)]


def test_before_the_first_byte_nothing_changes() -> None:
    client = Client()
    gate, _ = make_debloating_gate(THERE, client=client)
    gate.debloating.recalculate(100.0)
    assert gate.statistics().debloating == (SEGMENT_BYTES, 0.0)
    assert sizes_told(client) == []


def test_without_debloating_nothing_changes() -> None:
    client = Client()
    gate, _ = make_gate(THERE, client=client)
    receive(gate, 0, 10)
    gate.debloating.end_wait(0.0)
    gate.debloating.recalculate(1000.0)
    assert gate.statistics().debloating is None
    assert sizes_told(client) == []


def test_a_local_producer_fills_its_buffers_less() -> None:
    """H4: the size reaches the view; before the partition exists, the announcement has no
    effect."""
    gate, pool = make_debloating_gate(HERE, HERE)
    registry = PartitionRegistry(10.0)
    partitions = [make_partition(pool=pool, partition_id=name)[0] for name in ("p0", "p1")]
    registry.register(partitions[0])
    connect_local(gate, registry)
    put(partitions[0], 0, bytes(300))
    partitions[0].flush(0)
    polled = gate.poll()
    assert polled is not None
    polled[1].recycle()
    gate.debloating.recalculate(1.0)
    registry.register(partitions[1])
    assert [each.subpartitions[0].buffer_bytes for each in partitions] == [300, SEGMENT_BYTES]
    builder = partitions[0].request_builder(0)
    assert builder is not None
    assert builder.capacity == 300
    gate.release()
    for partition in partitions:
        partition.release()
    assert_everything_returned(pool)


def test_gates_of_one_task_are_sized_apart() -> None:
    """Census 10, row 10: inputs of unequal rates each get a size that fits."""
    slow, _ = make_debloating_gate(THERE)
    fast, _ = make_debloating_gate(THERE)
    receive(slow, 0, 100)
    receive(fast, 0, 900)
    for gate in (slow, fast):
        gate.debloating.recalculate(1.0)
    sizes = []
    for gate in (slow, fast):
        counts = gate.statistics().debloating
        assert counts is not None
        sizes.append(counts.buffer_bytes)
    assert sizes == [100, 900] or sizes == [100, SEGMENT_BYTES]


def test_an_unknown_channel_is_told_nothing() -> None:
    pool = NetworkBufferPool(64, SEGMENT_BYTES)
    config = make_config(segment_bytes=SEGMENT_BYTES, debloat=debloating())
    client = Client()
    gate = InputGate("gate", [UnknownLocation("p", 0)], HERE, pool, config)
    gate.setup(lambda: None)
    gate.debloating.end_wait(0.0)
    gate.debloating.recalculate(1.0)
    gate.release()
    assert client.sent == []
    assert_everything_returned(pool)


@pytest.mark.parametrize("state", ["released", "finished"])
def test_a_finished_gate_announces_no_size(state: str) -> None:
    """G15: announcing a size on a released channel would be an error."""
    client = Client()
    gate, pool = make_debloating_gate(THERE, client=client)
    receive(gate, 0, 300)
    if state == "finished":
        end(gate, 0)
        gate.poll()
    else:
        gate.release()
    gate.debloating.recalculate(1.0)
    assert sizes_told(client) == []
    gate.release()
    assert_everything_returned(pool)


# -- throughput -----------------------------------------------------------------------------------


def working(since: float = 0.0) -> ThroughputCalculator:
    calculator = ThroughputCalculator()
    calculator.resume(since)
    return calculator


def test_bytes_per_busy_second() -> None:
    """P3."""
    assert working(1.0).calculate(6666, now=1.1) == pytest.approx(66_660)


def test_a_window_ends_with_each_calculation() -> None:
    """P3: it is reset by each calculation, which is given the gate's total number of bytes."""
    calculator = working()
    assert calculator.calculate(1000, now=1.0) == 1000
    assert calculator.calculate(1000, now=2.0) == 0
    assert calculator.calculate(5000, now=4.0) == 2000


def test_idle_time_does_not_count() -> None:
    """P3."""
    calculator = working()
    calculator.pause(now=1.0)
    calculator.resume(now=10.0)
    assert calculator.calculate(300, now=12.0) == 100


def test_idleness_goes_on_in_the_next_window() -> None:
    """P3: an idle time that began before a calculation counts after it too."""
    calculator = working()
    calculator.pause(now=1.0)
    assert calculator.calculate(100, now=5.0) == 100
    calculator.resume(now=9.0)
    assert calculator.calculate(150, now=10.0) == 50


def test_saying_it_twice_is_harmless() -> None:
    """P3: a second start of the idle time, and a second end of it."""
    calculator = working()
    calculator.pause(now=1.0)
    calculator.pause(now=2.0)
    calculator.resume(now=3.0)
    calculator.resume(now=4.0)
    assert calculator.calculate(300, now=5.0) == 100


def test_a_window_without_work_keeps_the_last_value() -> None:
    """P3, census 1.8."""
    calculator = working()
    calculator.pause(now=1.0)
    calculator.calculate(100, now=2.0)
    assert calculator.calculate(100, now=3.0) == 100
    assert calculator.throughput == 100


def test_a_window_of_no_length_keeps_the_last_value() -> None:
    calculator = working()
    calculator.calculate(100, now=1.0)
    assert calculator.calculate(200, now=1.0) == 100


def test_nothing_is_known_before_the_first_byte() -> None:
    """A reader does not count as slow before it or its producers have begun."""
    calculator = ThroughputCalculator()
    assert calculator.calculate(0, now=1.0) is None
    calculator.resume(now=2.0)
    assert calculator.calculate(0, now=8.0) is None
    assert calculator.calculate(100, now=9.0) == 100


STEPS = st.lists(st.tuples(st.sampled_from(["work", "wait"]), st.integers(1, 100)), min_size=1)


@given(STEPS, st.integers(1, 10_000))
def test_only_working_counts_however_it_is_cut(steps: list[tuple[str, int]], size: int) -> None:
    calculator = ThroughputCalculator()
    now = busy = 0.0
    for state, seconds in steps:
        if state == "work":
            calculator.resume(now)
            busy += seconds
        else:
            calculator.pause(now)
        now += seconds
    assert calculator.calculate(size, now) == (pytest.approx(size / busy) if busy else None)


# -- sizes ----------------------------------------------------------------------------------------


def debloater(
    smallest: int = 50, largest: int = 1100, *, samples: int = 1, **options: Any
) -> BufferDebloater:
    config = BufferDebloatConfig(
        **{
            "enabled": True,
            "target_ms": 1200,
            "segment_bytes_min": smallest,
            "samples": samples,
            **options,
        }
    )
    return BufferDebloater(config, largest)


@pytest.mark.parametrize(
    ("smallest", "largest", "throughput", "expected"),
    [
        (50, 1100, 3333, 250),
        (50, 1100, 0, 50),
        (250, 1100, 3333, 250),
        (50, 248, 3333, None),
    ],
)
def test_the_size_lets_in_flight_data_be_consumed_within_the_target(
    smallest: int, largest: int, throughput: float, expected: int | None
) -> None:
    """P2: target 1200 ms, 16 buffers; the size is bounded, and an unchanged size is not
    announced."""
    assert debloater(smallest, largest).recalculate(throughput, 16) == expected


def test_no_buffer_in_use_counts_as_one() -> None:
    """P2."""
    assert debloater(target_ms=1000).recalculate(500, 0) == 500


def test_small_changes_are_not_told() -> None:
    """P2: changes below 25 % of the last announced size are not announced, however many there
    are."""
    arranged = debloater(target_ms=1000)
    assert arranged.recalculate(800, 1) == 800
    assert [arranged.recalculate(size, 1) for size in (900, 999, 800, 601)] == [None] * 4
    assert arranged.statistics().buffer_bytes == 800
    assert arranged.recalculate(1000, 1) == 1000
    assert arranged.recalculate(750, 1) == 750


@pytest.mark.parametrize(("near", "bound"), [(60, 50), (1000, 1100)])
def test_a_bound_is_told_however_near(near: int, bound: int) -> None:
    """P2: reaching the smallest or largest size is announced, once."""
    arranged = debloater(target_ms=1000)
    arranged.recalculate(500, 1)
    assert arranged.recalculate(near, 1) == near
    assert arranged.recalculate(0 if bound == 50 else 5000, 1) == bound
    assert arranged.recalculate(0 if bound == 50 else 5000, 1) is None


def test_an_estimate_of_the_time_to_consume() -> None:
    """Metric estimatedTimeToConsumeBuffersMs: the time for all buffers of the present size at the
    present throughput."""
    arranged = debloater(target_ms=1000, largest=4000)
    arranged.recalculate(8000, 4)
    assert arranged.statistics() == (2000, 1000.0)
    arranged.recalculate(0, 4)
    assert arranged.statistics() == (50, 200_000.0)


def test_sizes_follow_an_exponential_average() -> None:
    """Census 1.8: from the largest, with weight 2 / (samples + 1)."""
    arranged = debloater(256, 32768, samples=20, threshold_percent=0)
    sizes = [arranged.recalculate(0, 1) for _ in range(3)]
    assert sizes == [round(32768 * (19 / 21) ** steps) for steps in (1, 2, 3)]


FLINKS = {
    "follows": (
        [(111, 13), *[(107, 7)] * 5, *[(107, 13)] * 3, *[(333, 1)] * 6],
        [104, 60, 38, 26, 21, 18, 13, 11, 10, 15, 23, 34, 51, 76, 114],
    ),
    "largest": ([(0, 1), *[(1000, 1)] * 3], [100, 150, 200, 200]),
    "smallest": ([(0, 1)] * 6, [100, 50, 25, 13, 10, 10]),
}
"""Throughputs in bytes per second and buffers, with the sizes of Flink's BufferSizeEMATest."""


@pytest.mark.parametrize(("seen", "sizes"), FLINKS.values(), ids=FLINKS)
def test_sizes_are_those_of_flink(seen: list[tuple[float, int]], sizes: list[int]) -> None:
    arranged = debloater(10, 200, samples=3, target_ms=1000, threshold_percent=0)
    found = []
    for throughput, buffers in seen:
        arranged.recalculate(throughput, buffers)
        found.append(arranged.buffer_bytes)
    assert found == sizes


def test_a_size_that_grows_by_less_than_a_byte_at_a_time_grows() -> None:
    """FLINK-36555."""
    arranged = debloater(16, 32768, samples=10_000, target_ms=1000, threshold_percent=0)
    while arranged.buffer_bytes > 16:
        arranged.recalculate(0, 1)
    for _ in range(10_000):
        arranged.recalculate(2000, 1)
    assert arranged.buffer_bytes > 16


def test_sizes_grow_no_faster_than_they_shrink() -> None:
    """Census 1.8: a single value counts for at most twice the present size."""
    arranged = debloater(256, 32768, samples=20, threshold_percent=0)
    for _ in range(200):
        arranged.recalculate(0, 1)
    assert arranged.buffer_bytes == 256
    sizes = [arranged.recalculate(1e12, 1) for _ in range(3)]
    assert sizes == [round(256 * (23 / 21) ** steps) for steps in (1, 2, 3)]


@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.floats(0, 1e12), st.integers(0, 10_000)), max_size=50),
)
def test_a_size_is_always_one_that_a_producer_can_use(
    samples: int, seen: list[tuple[float, int]]
) -> None:
    arranged = debloater(256, 32768, samples=samples)
    last = 32768
    for throughput, buffers in seen:
        size = arranged.recalculate(throughput, buffers)
        arranged.check_invariants()
        if size is not None:
            assert 256 <= size <= 32768
            assert size in (256, 32768) or abs(size - last) >= last // 4
            last = size
        assert arranged.buffer_bytes == last


# -- configuration ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("target_ms", -1.0),
        ("target_ms", 0.0),
        ("period_ms", -1.0),
        ("samples", 0),
        ("segment_bytes_min", 0),
        ("threshold_percent", -1.0),
        ("threshold_percent", 100.0),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(option: str, value: float) -> None:
    """P2, P4."""
    with pytest.raises(ConfigurationError, match=option):
        BufferDebloatConfig(**{option: value})  # type: ignore[arg-type]


def test_the_smallest_size_is_at_most_the_largest() -> None:
    """P4; while debloating is off, small segments need no other settings."""
    debloat = BufferDebloatConfig(enabled=True, segment_bytes_min=129)
    with pytest.raises(ConfigurationError, match=r"debloat.segment_bytes_min is 129"):
        NetworkConfig(segment_bytes=128, debloat=debloat)
    assert NetworkConfig(segment_bytes=129, debloat=debloat).debloat.enabled
    assert not NetworkConfig(segment_bytes=128).debloat.enabled
