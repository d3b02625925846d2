"""In every interleaving, completed checkpoints are consistent cuts; planted bugs are found."""

from __future__ import annotations

import os
import subprocess
import sys
from time import perf_counter

import pytest

from flinknet.compiled_modules import COMPILED, PURE_VARIABLE
from tests.model.checkpoint_faults import (
    ABORTED,
    ALIGNED,
    ALTERNATING,
    CANCELLED,
    CHECKPOINT_FAULTS,
    ENDED_BEFORE,
    ENDING,
    LOCAL,
    LOCAL_ALTERNATING,
    MIXED,
    ONE_ALTERNATING,
    OPEN,
    SAVEPOINT,
    TWO,
    UNALIGNED,
    UNALIGNED_CANCELLED,
)
from tests.model.checkpoint_shape import CheckpointShape
from tests.model.checkpoint_world import CheckpointWorld
from tests.model.conftest import Tell
from tests.model.explorer import ViolationFoundError, explore
from tests.model.faults import Fault

STATES_MAX = 5_000_000

TAKEN = {"1 complete"}
IN_FLIGHT = {*TAKEN, "1 with input", "1 with output"}

SHAPES = {
    ALIGNED: TAKEN,
    CheckpointShape(("dAd", "Ad")): TAKEN,
    CheckpointShape(("dAd", "Ad"), local=(1,)): TAKEN,
    CheckpointShape(("dAd", "A"), exclusive=0, floating=1): TAKEN,
    ENDING: TAKEN,
    ENDED_BEFORE: {*TAKEN, "2 complete"},
    CANCELLED: {"1 aborted"},
    CheckpointShape(("AA", "XA")): {"1 aborted", "2 complete"},
    ABORTED: {*TAKEN, "1 aborted"},
    TWO: {*TAKEN, "2 complete"},
    UNALIGNED: IN_FLIGHT,
    CheckpointShape(("dUd", "Ud")): IN_FLIGHT,
    CheckpointShape(("dUd", "U"), exclusive=0, floating=1): IN_FLIGHT,
    CheckpointShape(("Ud", "dDE")): {*TAKEN, "1 with input"},
    UNALIGNED_CANCELLED: {"1 aborted"},
    CheckpointShape(("dUd", "U"), aborts=1): {*IN_FLIGHT, "1 aborted"},
    CheckpointShape(("UdU", "UU")): {*TAKEN, "1 aborted", "2 complete", "2 with output"},
    LOCAL: {*TAKEN, "1 with output"},
    CheckpointShape(("dUd", "Ud"), local=(1,)): IN_FLIGHT,
    CheckpointShape(("dUd", "Ud"), local=(0, 1)): {*TAKEN, "1 with input", "1 with output"},
    OPEN: IN_FLIGHT,
    MIXED: {*TAKEN, "1 with input"},
    SAVEPOINT: {*TAKEN, "1 aborted", "2 complete"},
    ALTERNATING: TAKEN,
    CheckpointShape(("dT", "T"), times=True): IN_FLIGHT,
    ONE_ALTERNATING: TAKEN,
    LOCAL_ALTERNATING: {*TAKEN, "1 with output"},
    CheckpointShape(("dT", "T"), local=(0,), times=True): {*TAKEN, "1 with output"},
    CheckpointShape(("AUd", "AU")): {*TAKEN, "1 aborted", "2 complete"},
    CheckpointShape(("Td", "DE"), times=True): TAKEN,
    CheckpointShape(("dT", "X"), times=True): {"1 aborted"},
    CheckpointShape(("T", "T"), aborts=1, times=True): {*TAKEN, "1 aborted"},
    CheckpointShape(("dT", "U"), times=True): {*TAKEN, "1 with input"},
    CheckpointShape(("dT", "F"), times=True): {*TAKEN, "1 with input"},
}
"""Shapes and the outcomes of their checkpoints, each of which some final state must have."""

DEEP_SHAPES = (
    CheckpointShape(("dTd", "Td"), times=True),
    CheckpointShape(("dTd", "Td"), local=(1,), times=True),
    CheckpointShape(("dTd", "Td"), local=(0, 1), times=True),
    CheckpointShape(("dTd", "dDE"), times=True),
    CheckpointShape(("dT", "T"), aborts=1, times=True),
    CheckpointShape(("TdT", "TT"), times=True),
    CheckpointShape(("dAd", "dAd", "dAd")),
    CheckpointShape(("dUd", "dUd", "U")),
    CheckpointShape(("dUdUd", "UU")),
    CheckpointShape(("ddUd", "dUd"), exclusive=2, floating=1),
    CheckpointShape(("dUd", "dUDE"), aborts=1),
)


def explored(shape: CheckpointShape, tell: Tell) -> set[str]:
    """Explore a world, and return the outcomes of its checkpoints."""
    began = perf_counter()
    seen = explore(shape, STATES_MAX, make_world=CheckpointWorld)
    tell(seen.states, seen.steps, perf_counter() - began, shape)
    assert seen.ends > 0
    assert isinstance(seen.world, CheckpointWorld)
    return set(seen.world.outcomes)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_checkpoint_is_a_consistent_cut(shape: CheckpointShape, tell: Tell) -> None:
    """J3, J8, J9, J12, K1 to K6, K12, K16 to K18, K20, K22: completed checkpoints are consistent.

    A checkpoint counts each record before its barriers once, as processed or in flight, and none
    from behind them. No channel stays blocked, buffers and credit add up, and each expected outcome
    occurs.
    """
    assert SHAPES[shape] <= explored(shape, tell)


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shape", DEEP_SHAPES, ids=str)
def test_every_checkpoint_of_a_larger_world_is_one(shape: CheckpointShape, tell: Tell) -> None:
    """The same for more data, more channels, and alignment timeouts on both sides."""
    assert "1 complete" in explored(shape, tell)


@pytest.mark.parametrize("shape", [ABORTED, CANCELLED, UNALIGNED_CANCELLED], ids=str)
def test_the_reduction_loses_nothing(shape: CheckpointShape) -> None:
    """The reduced search has fewer interleavings, but each side takes the same steps."""
    reduced = explore(shape, STATES_MAX, make_world=CheckpointWorld)
    full = explore(shape, STATES_MAX, make_world=CheckpointWorld, reduced=False)
    assert reduced.states < full.states
    assert reduced.ends == full.ends
    assert reduced.world.moves() == full.world.moves()


@pytest.mark.skipif(COMPILED, reason="a compiled class takes no bug: it is planted in plain Python")
@pytest.mark.parametrize("fault", CHECKPOINT_FAULTS, ids=lambda fault: fault.name)
def test_a_planted_bug_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch, tell: Tell) -> None:
    """The shape that is clean without the fault reveals it."""
    assert fault.shape in SHAPES
    original = getattr(fault.owner, fault.method)
    monkeypatch.setattr(fault.owner, fault.method, fault.replace(original))
    began = perf_counter()
    with pytest.raises(ViolationFoundError) as found:
        explore(fault.shape, STATES_MAX, make_world=CheckpointWorld)
    assert "more than" not in str(found.value)
    tell(found.value.states, 0, perf_counter() - began, f"{fault.shape}: {fault.name}")
    print(f"{fault.name}: {found.value}")


@pytest.mark.skipif(not COMPILED, reason="plain Python is what runs")
def test_every_planted_bug_is_found_in_plain_python() -> None:
    """Where classes are compiled, the bugs are planted in a process that runs plain Python."""
    here = "tests/model/test_checkpoints.py::test_a_planted_bug_is_found"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", here],
        env=os.environ | {PURE_VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{len(CHECKPOINT_FAULTS)} passed" in run.stdout
