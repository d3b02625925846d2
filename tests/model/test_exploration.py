"""Every interleaving at tiny sizes is right, and every planted bug is found."""

from __future__ import annotations

import pytest

from tests.model.explorer import ViolationFoundError, explore
from tests.model.faults import FAULTS, Fault
from tests.model.world import Shape

STATES_MAX = 2_000_000

SHAPES = (
    Shape(("ddE",), exclusive=0, floating=1),
    Shape(("ddddE",), exclusive=1, floating=0),
    Shape(("ddddE",), exclusive=1, floating=2),
    Shape(("ofdoE",), exclusive=1, floating=1),
    Shape(("deBdE",), exclusive=0, floating=2),
    Shape(("dBdBdE",), exclusive=0, floating=1),
    Shape(("dBdBdE",), exclusive=1, floating=1),
    Shape(("dddE",), exclusive=1, floating=1, cancel=0),
    Shape(("ddBdE",), exclusive=0, floating=1, cancel=0),
    Shape(("dBE", "BdE"), exclusive=0, floating=2),
    Shape(("dBE", "BE"), exclusive=2, floating=1),
    Shape(("dE", "E", "dE"), exclusive=0, floating=1),
)

DEEP_SHAPES = (
    Shape(("dddddE",), exclusive=2, floating=3),
    Shape(("dBdE", "BdE"), exclusive=0, floating=1),
    Shape(("dBdE", "dBdE"), exclusive=0, floating=1),
    Shape(("BdE", "dBE"), exclusive=1, floating=1),
    Shape(("dE", "dE"), exclusive=1, floating=0),
    Shape(("ddE", "ddE"), exclusive=1, floating=1),
    Shape(("dBE", "BE"), exclusive=1, floating=1, cancel=0),
    Shape(("dE", "dE", "dE"), exclusive=0, floating=1),
    Shape(("BE", "BE", "dBE"), exclusive=0, floating=1),
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_interleaving_is_right(shape: Shape) -> None:
    """No deadlock, no data without a buffer, credit and buffers conserved, all records in order."""
    seen = explore(shape, STATES_MAX)
    print(f"{seen.states} states, {seen.steps} steps, {seen.ends} ends: {shape}")
    assert seen.ends > 0


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shape", DEEP_SHAPES, ids=str)
def test_every_interleaving_of_a_larger_world_is_right(shape: Shape) -> None:
    """The same at sizes that take minutes each: two and three channels that compete for buffers."""
    test_every_interleaving_is_right(shape)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_bug_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exploration of the fault's shape is clean without it, and finds it."""
    original = getattr(fault.owner, fault.method)
    monkeypatch.setattr(fault.owner, fault.method, fault.replace(original))
    with pytest.raises(ViolationFoundError) as found:
        explore(fault.shape, STATES_MAX)
    print(f"{fault.name}: {found.value}")
