"""Random jobs on real clusters, compared with a plain interpreter of the same jobs.

``make test`` runs a fixed number of seeds, ``make fuzz SEEDS=5000`` a chosen one. A failing seed is
printed as a shrunk program, with the command that repeats it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.fuzz.jobs.features import FEATURES, features
from tests.fuzz.jobs.generator import generate
from tests.fuzz.jobs.interpreter import interpret
from tests.fuzz.jobs.lanes import Lanes, lanes
from tests.fuzz.jobs.program import Program
from tests.fuzz.jobs.shrinker import kind_of, shrunk

SEEDS = 200
"""Seeds in ``make test``."""

BLOCK = 20
"""Seeds of one test, few enough that it ends well before its timeout."""

LANES = 2
"""Processes that run seeds side by side if more than the fixed number are requested.

A process starts its clusters first, which costs as much as ten seeds.
"""

pytestmark = pytest.mark.xdist_group("random jobs")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Divide the requested seeds into blocks."""
    if "block" not in metafunc.fixturenames:
        return
    number = metafunc.config.getoption("--seeds") or SEEDS
    first = metafunc.config.getoption("--first-seed")
    blocks = [
        range(start, min(start + BLOCK, first + number))
        for start in range(first, first + number, BLOCK)
    ]
    names = [f"seeds {block.start} to {block.stop - 1}" for block in blocks]
    metafunc.parametrize("block", blocks, ids=names)


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[Lanes]:
    number = request.config.getoption("--seeds") or SEEDS
    with lanes(min(LANES, os.cpu_count() or 1) if number > SEEDS else 1) as started:
        yield started


@pytest.mark.timeout(600)
def test_a_job_gives_out_what_its_program_means(block: range, running: Lanes) -> None:
    began = time.monotonic()
    failures = running.run(block, lambda seed: None)
    rate = len(block) / (time.monotonic() - began)
    print(f"\nseeds {block.start} to {block.stop - 1}: {rate:.1f} seeds/s", end=" ", flush=True)
    again = "\n".join(f"make fuzz SEEDS=1 FROM={seed_of(failure)}" for failure in failures)
    assert not failures, "\n\n".join(["", *failures, again])


def seed_of(failure: str) -> str:
    """Return the seed from the head of a failure's program."""
    return failure.split(maxsplit=2)[1].rstrip(",")


def test_every_feature_is_drawn(request: pytest.FixtureRequest) -> None:
    """Every feature is drawn by the fixed seeds; otherwise it would remain untested."""
    number = request.config.getoption("--seeds") or SEEDS
    first = request.config.getoption("--first-seed")
    counts: Counter[str] = Counter()
    for seed in range(first, first + number):
        counts.update(features(generate(seed)))
    lines = [f"{counts[name]:6} {name}" for name in sorted(FEATURES)]
    print("\nprograms with each feature:", *lines, sep="\n")
    assert not counts.keys() - set(FEATURES), "these are not listed"
    if number >= SEEDS:
        assert not set(FEATURES) - counts.keys(), "these were never drawn"


def test_a_program_and_its_outputs_follow_from_its_seed() -> None:
    for seed in range(20):
        assert generate(seed) == generate(seed)
        assert str(interpret(generate(seed))) == str(interpret(generate(seed)))


async def test_a_smaller_program_fails_in_the_same_way() -> None:
    """The shrinker rejects a smaller program that fails for another reason.

    Program 3773 takes the minimum of field 1, which only the tuples of an earlier map have. Without
    the map it fails, too, but with another error.
    """
    program = generate(3773)

    async def failure_of(smaller: Program) -> str:
        if any(step.kind == "map" for step in smaller.steps):
            return "HANGS: it has not ended within 30 s"
        return "FAILS: JobFailedError: subtask failed: TypeError: a Box has no field 1"

    smaller, failure = await shrunk(program, await failure_of(program), failure_of, 60.0)

    assert kind_of(failure) == ("HANGS",)
    assert len(smaller.steps) < len(program.steps)
    assert any(step.kind == "map" for step in smaller.steps)


def test_kinds_of_failures() -> None:
    raised = "FAILS: JobFailedError: operator failed: TypeError: no field\nTypeError: no field"
    assert kind_of(raised) == ("FAILS", "JobFailedError", "TypeError")
    assert kind_of("sink s1: 3 records are missing") == ("differs",)
