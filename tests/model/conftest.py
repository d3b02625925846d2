"""The table of explored worlds, printed at the end of the run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_TOLD: pytest.StashKey[list[tuple[str, ...]]] = pytest.StashKey()
_HEADER = ("states", "steps", "seconds", "world")

Tell = Callable[..., None]


def pytest_configure(config: pytest.Config) -> None:
    """Begin with an empty table."""
    config.stash[_TOLD] = []


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Tell:
    """Return a function that adds a row to the table."""

    def add(states: int, steps: int | str, seconds: float, world: object) -> None:
        row = (f"{states:,}", f"{steps:,}" if steps else "", f"{seconds:.1f}", str(world))
        request.config.stash[_TOLD].append(row)

    return add


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table if output is shown (-s), else its number of rows."""
    told = config.stash.get(_TOLD, [])
    if not told:
        return
    if config.getoption("capture") != "no":
        terminalreporter.write_line(f"{len(told)} worlds explored (-s shows them)")
        return
    terminalreporter.write_sep("-", "worlds explored")
    for states, steps, seconds, world in [_HEADER, *told]:
        terminalreporter.write_line(f"{states:>11} {steps:>11} {seconds:>8}  {world}")
