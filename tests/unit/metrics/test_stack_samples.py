"""Counts of sampled stacks: bounded, and unchanged by serialization."""

from __future__ import annotations

import msgpack
import pytest

from flinknet.metrics.stack_samples import Looks, Stack, StackSamples

RUNS = Stack(0, True, ("run", "map"))
WAITS = Stack(0, False, ("run", "emit"))


def seen(*stacks: Stack, stacks_max: int = 10) -> StackSamples:
    samples = StackSamples(stacks_max)
    for stack in stacks:
        samples.add_stack(stack)
    return samples


def test_the_same_stack_is_counted_again() -> None:
    assert dict(seen(RUNS, WAITS, RUNS).stacks()) == {RUNS: 2, WAITS: 1}


def test_what_goes_beyond_the_bound_is_one_stack_that_says_so() -> None:
    samples = seen(RUNS, WAITS, Stack(0, True, ("a",)), Stack(0, True, ("b",)), RUNS, stacks_max=2)
    assert dict(samples.stacks()) == {RUNS: 2, WAITS: 1, Stack(0, True, ("(other stacks)",)): 2}


def test_the_ratio_is_that_of_the_looks() -> None:
    samples = seen()
    for is_backpressured in (True, False, False, True, False):
        samples.add_look(1, is_backpressured=is_backpressured)
    samples.add_look(0, is_backpressured=False)
    looks = samples.looks()
    assert looks == {0: Looks(1, 0), 1: Looks(5, 2)}
    assert looks[1].ratio == 0.4
    assert Looks(0, 0).ratio == 0.0


def test_samples_survive_their_bytes_and_are_put_together() -> None:
    samples = seen(RUNS, WAITS, RUNS)
    samples.add_look(0, is_backpressured=True)
    packed = samples.pack()
    assert packed.count(b"run") == 1
    copy = StackSamples.unpack(packed, 10)
    assert dict(copy.stacks()) == dict(samples.stacks())
    others = seen(WAITS._replace(subtask_index=1))
    others.add_look(1, is_backpressured=False)
    copy.add_all(others)
    assert dict(copy.stacks()) == {RUNS: 2, WAITS: 1, Stack(1, False, WAITS.calls): 1}
    assert copy.looks() == {0: Looks(1, 1), 1: Looks(1, 0)}


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\xc1",
        msgpack.packb(7),
        msgpack.packb([[], []]),
        msgpack.packb([["run"], [[0, True, [1], 1]], []]),
        msgpack.packb([["run"], [[0, True, 7, 1]], []]),
        msgpack.packb([["run"], [[0, True, [0]]], []]),
        msgpack.packb([[], [], [["a", 1, 1]]]),
    ],
)
def test_anything_else_is_no_sample(packed: bytes) -> None:
    with pytest.raises(ValueError, match="no stack samples"):
        StackSamples.unpack(packed, 10)
