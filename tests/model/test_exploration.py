"""Every interleaving of tiny worlds is right, and every planted bug is found."""

from __future__ import annotations

import os
import subprocess
import sys
from time import perf_counter

import pytest

from flinknet.compiled_modules import COMPILED, PURE_VARIABLE
from tests.model.conftest import Tell
from tests.model.explorer import ViolationFoundError, explore
from tests.model.faults import FAULTS, Fault
from tests.model.producer_side import ProducerSide
from tests.model.shape import Shape

STATES_MAX = 20_000_000

SCRIPTS = (("dedBdDE",), ("dBDE", "dBDE"))
THREE = ("dBDE", "BDE", "DE")
BUFFERS = [(exclusive, floating) for exclusive in range(3) for floating in range(4)][1:]
"""Exclusive and floating buffers; the configuration refuses a channel without either."""

SHAPES = (
    *(Shape(scripts, *buffers) for scripts in SCRIPTS for buffers in BUFFERS),
    *(Shape(THREE, *buffers) for buffers in ((0, 1), (1, 0), (2, 1))),
    Shape(("ddddDE",), exclusive=1, floating=2),
    Shape(("ddddDE",), exclusive=0, floating=1),
    Shape(("ofdoDE",), exclusive=1, floating=0),
    Shape(("afafaDE",), exclusive=1, floating=0),
    Shape(("afaBafaDE",), exclusive=0, floating=1),
    Shape(("afaDE", "dDE"), exclusive=1, floating=1),
    Shape(("afaDE", "DE"), exclusive=1, floating=1, cancel=0),
    Shape(("afaDE", "DE"), exclusive=1, floating=1, fails=True),
    Shape(("afaDE", "afaDE"), exclusive=0, floating=1, credit=False),
    Shape(("dBdBdDE",), exclusive=0, floating=1),
    Shape(("dBdDE", "BdDE"), exclusive=0, floating=1),
    Shape(("BdDE", "BdDE"), exclusive=1, floating=1),
    Shape(("ddDE", "DE"), exclusive=1, floating=1, cancel=0),
    Shape(("ddBdDE",), exclusive=0, floating=1, cancel=0),
    Shape(("dBDE", "BDE"), exclusive=0, floating=1, cancel=0),
    Shape(("BdDE", "BDE"), exclusive=1, floating=1, fails=True),
    Shape(("BdDE", "BDE"), exclusive=0, floating=1, fails=True),
    Shape(("dedBdDE",), exclusive=0, floating=1, credit=False),
    Shape(("dBdDE", "dBDE"), exclusive=1, floating=0, credit=False),
    Shape(("dDE", "BDE", "BDE"), exclusive=0, floating=1, credit=False),
    Shape(("dDE", "dDE"), exclusive=0, floating=1, cancel=0, credit=False),
    Shape(("dDE", "dDE"), exclusive=0, floating=2, fails=True, credit=False),
    Shape(("deDeE",), exclusive=1, floating=0),
    Shape(("dDBE", "DBeE"), exclusive=0, floating=1),
    Shape(("dDeE",), exclusive=1, floating=0, cancel=0),
    Shape(("dDeE", "DE"), exclusive=0, floating=1, fails=True),
    Shape(("ddddDE",), exclusive=1, floating=1, widens=True),
    Shape(("dddDE", "dDE"), exclusive=0, floating=1, widens=True),
    Shape(("eeeeDE",), exclusive=1, floating=0, events=1),
    Shape(("eeeBeeDeE",), exclusive=1, floating=0, events=2),
    Shape(("deeeDE",), exclusive=1, floating=1, events=2),
    Shape(("eeBdeDE",), exclusive=0, floating=1, events=1),
    Shape(("eeBeDE", "DE"), exclusive=1, floating=0, cancel=0, events=1),
    Shape(("eedeDE",), exclusive=0, floating=1, fails=True, events=1),
    Shape(("eedeDE",), exclusive=0, floating=1, credit=False, events=1),
    Shape(("dE",), exclusive=1, floating=0, lawless=True),
    Shape(("Dd",), exclusive=1, floating=0, lawless=True),
    Shape(("dDD",), exclusive=1, floating=0, lawless=True),
    Shape(("dDE",), exclusive=1, floating=0, lawless=True),
    Shape(("dDE", "dE"), exclusive=0, floating=1, lawless=True),
)

DEEP_SHAPES = (
    *(Shape(("dBdDE", "dBDE"), *buffers) for buffers in BUFFERS),
    *(Shape(THREE, *buffers) for buffers in BUFFERS),
    *(Shape(("dBDE", "dBDE", "dBDE"), *buffers) for buffers in ((0, 1), (1, 0), (1, 1), (2, 3))),
    Shape(("dBdDE", "dBdDE"), exclusive=0, floating=1),
    Shape(("dBdDE", "dBdDE"), exclusive=1, floating=1),
    Shape(("ddDE", "dDE"), exclusive=1, floating=1, cancel=0),
    Shape(("ddDE", "dDE"), exclusive=0, floating=1, cancel=0, credit=False),
    Shape(("ddBdDE", "ddBdDE"), exclusive=0, floating=1),
    Shape(("ddBdDE", "ddBdDE"), exclusive=1, floating=1),
    Shape(("dddddBdddDE",), exclusive=2, floating=3),
    Shape(("afafaDE", "dDE"), exclusive=1, floating=1),
    Shape(("dddDE", "dddDE"), exclusive=2, floating=1),
    Shape(("ddDE", "dDE", "dDE"), exclusive=0, floating=1),
    Shape(("dBDE", "dBDE", "DE"), exclusive=2, floating=3),
    Shape(("dBDE", "BDE", "BDE"), exclusive=0, floating=1, cancel=0),
    Shape(("dBDE", "BdDE", "DE"), exclusive=0, floating=1, fails=True),
    Shape(("dDE", "dDE"), exclusive=1, floating=1, cancel=0, fails=True),
    Shape(("dBDE", "dBDE", "dBDE"), exclusive=0, floating=1, credit=False),
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_interleaving_is_right(shape: Shape, tell: Tell) -> None:
    """C10, C11, E3, E4, E11, F6, G6 to G10: no interleaving deadlocks or breaks an invariant.

    No data is sent without a buffer. Credit and buffers are conserved, the announced backlog can be
    polled, and records arrive in order. The consumer never has to refuse an event, however long its
    reader is held up: the writer sends no more events than permitted.
    """
    began = perf_counter()
    seen = explore(shape, STATES_MAX)
    tell(seen.states, seen.steps, perf_counter() - began, shape)
    assert seen.ends > 0


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shape", DEEP_SHAPES, ids=str)
def test_every_interleaving_of_a_larger_world_is_right(shape: Shape, tell: Tell) -> None:
    """The same for more data, and for three channels that compete for buffers."""
    test_every_interleaving_is_right(shape, tell)


@pytest.mark.parametrize(
    "shape",
    [
        Shape(("ddBdDE",), exclusive=0, floating=1),
        Shape(("dddDE",), exclusive=1, floating=1, cancel=0),
        Shape(("dBDE", "BDE"), exclusive=1, floating=1),
        Shape(("BDE", "BDE"), exclusive=0, floating=1, fails=True),
    ],
    ids=str,
)
def test_the_reduction_loses_nothing(shape: Shape) -> None:
    """The reduced search has fewer interleavings, but each side takes the same steps."""
    reduced = explore(shape, STATES_MAX)
    full = explore(shape, STATES_MAX, reduced=False)
    assert reduced.states < full.states
    assert reduced.ends == full.ends
    assert reduced.world.moves() == full.world.moves()


@pytest.mark.parametrize(
    ("shape", "images"),
    [
        (Shape(("BDE", "BDE"), exclusive=0, floating=1), 2),
        (Shape(("dDE", "dDE"), exclusive=1, floating=1), 2),
        (Shape(("DE", "DE", "DE"), exclusive=0, floating=1), 6),
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


@pytest.mark.skipif(COMPILED, reason="a compiled class takes no bug: it is planted in plain Python")
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_bug_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch, tell: Tell) -> None:
    """The shape that is clean without the fault reveals it."""
    assert fault.shape in SHAPES
    original = getattr(fault.owner, fault.method)
    monkeypatch.setattr(fault.owner, fault.method, fault.replace(original))
    began = perf_counter()
    with pytest.raises(ViolationFoundError) as found:
        explore(fault.shape, STATES_MAX)
    assert "more than" not in str(found.value)
    tell(found.value.states, 0, perf_counter() - began, f"{fault.shape}: {fault.name}")
    print(f"{fault.name}: {found.value}")


@pytest.mark.skipif(not COMPILED, reason="plain Python is what runs")
def test_every_planted_bug_is_found_in_plain_python() -> None:
    """Where classes are compiled, the bugs are planted in a process that runs plain Python."""
    here = "tests/model/test_exploration.py::test_a_planted_bug_is_found"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", here],
        env=os.environ | {PURE_VARIABLE: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"{len(FAULTS)} passed" in run.stdout
