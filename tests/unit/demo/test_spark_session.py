"""Requirements of the demo's Spark session."""

from __future__ import annotations

from flinknet.demo.spark_session import require_extra


def test_the_extra_is_there() -> None:
    """A demo without it names the package to install."""
    require_extra()
