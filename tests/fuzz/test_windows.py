"""Random windows through random histories, compared with a model that checks every timer."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.fuzz.windows.cases import Case, draw
from tests.fuzz.windows.model import Model
from tests.fuzz.windows.operator import RealWindows

SEEDS = 600
"""Seeds in ``make test``; each takes a few milliseconds."""

FEATURES = {
    *(f"{name}, event time" for name in ("tumbling", "sliding", "session", "dynamic session")),
    *(f"{name}, processing time" for name in ("tumbling", "sliding", "session", "dynamic session")),
    "global, event time",
    *(f"trigger {name}" for name in ("default", "count", "continuous")),
    *(f"evictor {name}" for name in ("none", "count", "time", "delta")),
    *(f"contents {name}" for name in ("elements", "reduce", "aggregate")),
    *("purging", "evicts after", "evicts before", "allowed lateness", "late output"),
    "slide > size",
}


@pytest.mark.timeout(600)
async def test_windows_say_what_the_model_says(request: pytest.FixtureRequest) -> None:
    number = request.config.getoption("--seeds") or SEEDS
    first = request.config.getoption("--first-seed")
    drawn: Counter[str] = Counter()
    for seed in range(first, first + number):
        case = draw(seed)
        drawn.update(case.features())
        wrong = await difference(case)
        assert not wrong, f"{wrong}\n{case}\nmake fuzz SEEDS=1 FROM={seed}"
    print(
        "\ncases with each feature:",
        *(f"{drawn[name]:6} {name}" for name in sorted(drawn)),
        sep="\n",
    )
    if number >= SEEDS:
        assert drawn.keys() == FEATURES


async def difference(case: Case) -> str:
    """Return the difference between the operator and the model, or ""."""
    model = Model(case)
    async with RealWindows(case) as windows:
        for number, action in enumerate(case.actions):
            expected, said = model.take(action), await windows.take(action)
            if Counter(map(repr, expected)) != Counter(map(repr, said)):
                return f"at action {number}, {action}: {said} were said, not {expected}"
    return ""
