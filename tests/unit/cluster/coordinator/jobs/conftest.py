"""Dispatchers with workers that the test plays."""

from __future__ import annotations

import pytest

from flinknet.config.restart_strategy import FixedDelayRestart
from tests.unit.cluster.coordinator.jobs.dispatched import (
    Checkpointed,
    Cluster,
    Parted,
)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def retrying() -> Cluster:
    """A cluster with jobs that take another attempt, in the far future unless the test begins
    it."""
    return Cluster(FixedDelayRestart(attempts=9, delay_ms=1_000_000.0))


@pytest.fixture
def restarting() -> Cluster:
    """A cluster with jobs that are restarted once, a second after their failure."""
    return Cluster(FixedDelayRestart(attempts=1, delay_ms=1000.0))


@pytest.fixture
def checkpointed() -> Checkpointed:
    return Checkpointed()


@pytest.fixture
def cluster_of_parts() -> Parted:
    return Parted()
