"""The end of a file."""

from __future__ import annotations

import pytest

from flinknet.datastream.connectors.rolling_policies import RollingPolicy
from flinknet.errors import ConfigurationError


def test_by_size_by_age_and_by_inactivity() -> None:
    policy = RollingPolicy.default_rolling_policy(100, 2000, 1000)
    assert not policy.should_roll(99, 1999.0, 999.0)
    assert policy.should_roll(100, 0.0, 0.0)
    assert policy.should_roll(0, 2000.0, 0.0)
    assert policy.should_roll(0, 0.0, 1000.0)


def test_with_checkpoints_only() -> None:
    assert not RollingPolicy.on_checkpoint_rolling_policy().should_roll(1 << 40, 1e9, 1e9)


@pytest.mark.parametrize("wrong", [(0, 1, 1), (1, 0, 1), (1, 1, -1)])
def test_a_file_has_room_and_time(wrong: tuple[int, int, int]) -> None:
    with pytest.raises(ConfigurationError, match="a file would have no time or no space"):
        RollingPolicy.default_rolling_policy(*wrong)
