"""The lifetime of state."""

from __future__ import annotations

from datetime import timedelta

import pytest

from flinknet.errors import ConfigurationError
from flinknet.state.time_to_live import StateTtlConfig

SECOND = timedelta(seconds=1)


class Millis:
    """A time span with the methods of PyFlink's Duration and Time."""

    def __init__(self, name: str, milliseconds: int) -> None:
        setattr(self, name, lambda: milliseconds)


def test_defaults_are_flinks() -> None:
    config = StateTtlConfig.new_builder(SECOND).build()
    assert config.ttl_ms == 1000
    assert config.is_enabled
    assert not config.is_renewed_by_reading
    assert not config.shows_expired
    assert config.cleanup_entries == 5
    assert not config.cleanup_in_full_snapshot


def test_each_setting() -> None:
    builder = StateTtlConfig.new_builder(SECOND).update_ttl_on_read_and_write()
    config = (
        builder.return_expired_if_not_cleaned_up()
        .use_processing_time()
        .cleanup_full_snapshot()
        .cleanup_incrementally(7)
        .build()
    )
    assert config.is_renewed_by_reading
    assert config.shows_expired
    assert config.cleanup_in_full_snapshot
    assert config.cleanup_entries == 7
    other = builder.update_ttl_on_create_and_write().never_return_expired()
    changed = other.disable_cleanup_in_background().set_ttl(2 * SECOND).build()
    assert not changed.is_renewed_by_reading
    assert not changed.shows_expired
    assert (changed.cleanup_entries, changed.ttl_ms) == (0, 2000)
    assert config.ttl_ms == 1000, "what was built does not change with its builder"


def test_state_that_nothing_renews_lives_forever() -> None:
    disabled = StateTtlConfig.UpdateType.Disabled
    assert not StateTtlConfig.new_builder(SECOND).set_update_type(disabled).build().is_enabled


@pytest.mark.parametrize("name", ["to_millis", "to_milliseconds"])
def test_spans_of_pyflink(name: str) -> None:
    assert StateTtlConfig.new_builder(Millis(name, 5)).build().ttl_ms == 5


def test_it_expires_in_the_millisecond() -> None:
    config = StateTtlConfig.new_builder(SECOND).build()
    assert not config.has_expired(5, 1004)
    assert config.has_expired(5, 1005)


def test_invalid_combinations_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="choose a Duration"):
        StateTtlConfig.new_builder(5)
    with pytest.raises(ConfigurationError, match="1 ms or more"):
        StateTtlConfig.new_builder(timedelta())
    with pytest.raises(ConfigurationError, match="disable_cleanup_in_background"):
        StateTtlConfig.new_builder(SECOND).cleanup_incrementally(0)
    with pytest.raises(ConfigurationError, match="not for every record"):
        StateTtlConfig.new_builder(SECOND).cleanup_incrementally(1, True)
