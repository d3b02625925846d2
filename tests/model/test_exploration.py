"""Every interleaving at tiny sizes is right, and every planted bug is found."""

from __future__ import annotations

from time import perf_counter

import pytest

from tests.model.conftest import Tell
from tests.model.explorer import ViolationFoundError, explore
from tests.model.faults import FAULTS, Fault
from tests.model.producer_side import ProducerSide
from tests.model.shape import Shape

STATES_MAX = 20_000_000

SCRIPTS = (("dedBdE",), ("dBE", "dBE"), ("dBE", "BE", "E"))
BUFFERS = [(exclusive, floating) for exclusive in range(3) for floating in range(4)][1:]
"""Exclusive and floating; a channel without either is refused by the configuration."""

SHAPES = (
    *(Shape(scripts, *buffers) for scripts in SCRIPTS for buffers in BUFFERS),
    Shape(("ddddE",), exclusive=1, floating=2),
    Shape(("ddddE",), exclusive=0, floating=1),
    Shape(("ofdoE",), exclusive=1, floating=0),
    Shape(("afafaE",), exclusive=1, floating=0),
    Shape(("afaBafaE",), exclusive=0, floating=1),
    Shape(("afafaE", "dE"), exclusive=1, floating=1),
    Shape(("afaE", "dE"), exclusive=1, floating=1, cancel=0),
    Shape(("afaE", "dE"), exclusive=1, floating=1, fails=True),
    Shape(("afaE", "afaE"), exclusive=0, floating=1, credit=False),
    Shape(("dBdBdE",), exclusive=0, floating=1),
    Shape(("dBdE", "dBdE"), exclusive=0, floating=1),
    Shape(("dBdE", "dBdE"), exclusive=1, floating=1),
    Shape(("ddE", "dE"), exclusive=1, floating=1, cancel=0),
    Shape(("ddBdE",), exclusive=0, floating=1, cancel=0),
    Shape(("dBE", "BdE"), exclusive=0, floating=1, cancel=0),
    Shape(("dBdE", "BE"), exclusive=1, floating=1, fails=True),
    Shape(("dBdE", "BE"), exclusive=0, floating=1, fails=True),
    Shape(("dedBdE",), exclusive=0, floating=1, credit=False),
    Shape(("dBdE", "dBE"), exclusive=1, floating=0, credit=False),
    Shape(("dE", "dBE", "BE"), exclusive=0, floating=1, credit=False),
    Shape(("ddE", "dE"), exclusive=0, floating=1, cancel=0, credit=False),
    Shape(("ddE", "dE"), exclusive=0, floating=2, fails=True, credit=False),
)

DEEP_SHAPES = (
    *(Shape(("dBdE", "dBE"), *buffers) for buffers in BUFFERS),
    *(Shape(("dBE", "dBE", "dBE"), *buffers) for buffers in BUFFERS),
    Shape(("ddBdE", "ddBdE"), exclusive=0, floating=1),
    Shape(("ddBdE", "ddBdE"), exclusive=1, floating=1),
    Shape(("dddddBdddE",), exclusive=2, floating=3),
    Shape(("dddE", "dddE"), exclusive=2, floating=1),
    Shape(("ddE", "dE", "dE"), exclusive=0, floating=1),
    Shape(("dBE", "dBE", "E"), exclusive=2, floating=3),
    Shape(("dBE", "BE", "BE"), exclusive=0, floating=1, cancel=0),
    Shape(("dBE", "BdE", "E"), exclusive=0, floating=1, fails=True),
    Shape(("dE", "dE"), exclusive=1, floating=1, cancel=0, fails=True),
    Shape(("dBE", "dBE", "dBE"), exclusive=0, floating=1, credit=False),
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_interleaving_is_right(shape: Shape, tell: Tell) -> None:
    """C10, C11, E3, E4, E11, F6, G6 to G10: no deadlock, no data without a buffer, credit and
    buffers conserved, what is told of the backlog is there, all records in order."""
    began = perf_counter()
    seen = explore(shape, STATES_MAX)
    tell(seen.states, seen.steps, perf_counter() - began, shape)
    assert seen.ends > 0


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shape", DEEP_SHAPES, ids=str)
def test_every_interleaving_of_a_larger_world_is_right(shape: Shape, tell: Tell) -> None:
    """The same with more data, and with three channels that all compete for buffers."""
    test_every_interleaving_is_right(shape, tell)


@pytest.mark.parametrize(
    "shape",
    [
        Shape(("ddBdE",), exclusive=0, floating=1),
        Shape(("dddE",), exclusive=1, floating=1, cancel=0),
        Shape(("dBE", "dBE"), exclusive=1, floating=1),
        Shape(("dBE", "BE"), exclusive=0, floating=1, fails=True),
    ],
    ids=str,
)
def test_the_reduction_loses_nothing(shape: Shape) -> None:
    """Fewer interleavings, but each side does all that it does in the full search."""
    reduced = explore(shape, STATES_MAX)
    full = explore(shape, STATES_MAX, reduced=False)
    assert reduced.states < full.states
    assert reduced.ends == full.ends
    assert reduced.world.moves() == full.world.moves()


@pytest.mark.parametrize(
    ("shape", "images"),
    [
        (Shape(("dBE", "dBE"), exclusive=0, floating=1), 2),
        (Shape(("dE", "dE"), exclusive=1, floating=1), 2),
        (Shape(("BE", "BE", "BE"), exclusive=0, floating=1), 6),
    ],
    ids=str,
)
def test_only_mirror_images_are_left_out(
    shape: Shape, images: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Channels with the same script can be exchanged: there is one image for each order of them."""
    kept = explore(shape, STATES_MAX)
    monkeypatch.setattr(ProducerSide, "mirrors_another", lambda side, index: False)
    every = explore(shape, STATES_MAX)
    assert kept.states < every.states <= images * kept.states


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_bug_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch, tell: Tell) -> None:
    """A shape that is clean without the fault reveals it."""
    assert fault.shape in SHAPES
    original = getattr(fault.owner, fault.method)
    monkeypatch.setattr(fault.owner, fault.method, fault.replace(original))
    began = perf_counter()
    with pytest.raises(ViolationFoundError) as found:
        explore(fault.shape, STATES_MAX)
    assert "more than" not in str(found.value)
    tell(found.value.states, 0, perf_counter() - began, f"{fault.shape}: {fault.name}")
    print(f"{fault.name}: {found.value}")
