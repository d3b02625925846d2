"""Some of the rounds of ``tests/chaos/test_stores.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.store_rounds import KINDS, StoreRounds, print_summary

pytestmark = pytest.mark.timeout(300)

FLIPPED, GONE, REMOUNTED = 10, 2, 15
"""Seeds of three rounds.

The newest checkpoint is flipped, and files are withdrawn. It is gone, and output cannot be
withdrawn. The directory is swapped for another and back, and files are withdrawn.
"""


async def test_a_lost_checkpoint_repeats_no_output(tmp_path: Path) -> None:
    seeds = (FLIPPED, GONE, REMOUNTED)
    assert [KINDS[seed % len(KINDS)] for seed in seeds] == ["flipped", "gone", "remounted"]
    rounds = StoreRounds(tmp_path)
    try:
        await rounds.run(seeds)
    finally:
        print_summary(rounds.outcomes)
    results = [one.result for one in rounds.outcomes]
    assert results == ["exact", "would repeat output", "exact"], rounds.outcomes
