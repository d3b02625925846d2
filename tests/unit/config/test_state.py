"""The limits of keyed state."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.config.loading import load_settings
from flinknet.config.state import StateConfig
from flinknet.errors import ConfigurationError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "disk"}, "backend is 'disk': choose"),
        ({"rocksdb_cached_entries_max": 0}, "rocksdb_cached_entries_max is 0: choose 1 or more"),
        ({"rocksdb_write_buffer_bytes": 1}, "rocksdb_write_buffer_bytes is 1: choose 65536"),
        ({"rocksdb_block_cache_bytes": 1}, "rocksdb_block_cache_bytes is 1: choose 65536"),
    ],
)
def test_a_limit_is_refused_with_what_to_choose(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        StateConfig(**options)
    assert str(raised.value).startswith(message)


def test_they_are_written_as_the_other_options() -> None:
    environ = {
        "FLINKNET_STATE_BACKEND": "rocksdb",
        "FLINKNET_STATE_ROCKSDB_BLOCK_CACHE_BYTES": "1MiB",
    }
    loaded = load_settings(None, environ, {"state.rocksdb_directory": "/data"}).config.state
    assert loaded == StateConfig("rocksdb", "/data", rocksdb_block_cache_bytes=2**20)
