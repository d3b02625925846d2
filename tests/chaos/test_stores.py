"""Jobs with disturbed checkpoint stores or restarts end exact, or fail with a named cause.

Checkpoints are damaged, gone, unmounted, late or without room. No job may be stuck. ``make chaos
ARGS="-k stores --trials 200"`` runs so many rounds. Each prints its seed, and ``ARGS="-k stores
--seed 4711 --trials 1"`` repeats the round of that seed. ``make test`` has a few.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.store_rounds import StoreRounds, print_summary

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(14_400)]


async def test_no_damage_repeats_output_or_holds_a_job_up(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed, count = request.config.getoption("--seed"), request.config.getoption("--trials")
    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    print(f"\nstores: {count} rounds from seed {seed}")
    rounds = StoreRounds(tmp_path)
    try:
        await rounds.run(range(seed, seed + count))
    finally:
        print_summary(rounds.outcomes)
    assert [one for one in rounds.outcomes if not one.held] == []
