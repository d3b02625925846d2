"""Command-line options of the trials."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=None, help="seed of the faults (default: any)")
    parser.addoption("--trials", type=int, default=100, help="number of faults (default: 100)")
