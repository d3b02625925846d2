"""What the demo's session of Spark needs."""

from __future__ import annotations

from flinknet.demo.spark_session import require_extra


def test_the_extra_is_there() -> None:
    """A demo without it says what to install."""
    require_extra()
