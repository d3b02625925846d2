"""The exit statuses of a cluster's processes."""

from __future__ import annotations

from flinknet.cluster.control.exit_status import ExitStatus


def test_the_numbers_stay() -> None:
    """Service managers and scripts rely on them."""
    assert {status.name: int(status) for status in ExitStatus} == {
        "STOPPED": 0,
        "FAILED": 1,
        "REFUSED": 2,
        "COORDINATOR_LOST": 3,
        "PARENT_GONE": 4,
        "USER_CODE": 5,
        "SUPERSEDED": 6,
    }
