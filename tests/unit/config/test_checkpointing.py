"""The limits of checkpoints: contradictory values are refused, with the option to change."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.config import CheckpointingConfig
from flinknet.config.loading import load_settings
from flinknet.errors import ConfigurationError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"retained": 0}, "retained is 0: choose 1 or more"),
        ({"aborted_checkpoints_max": 0}, "aborted_checkpoints_max is 0: choose 1"),
        ({"files_max": 0}, "files_max is 0: choose 1 or more"),
        ({"inline_bytes_max": -1}, "inline_bytes_max is -1: choose 0 or more"),
        ({"part_bytes_max": 1048575}, "part_bytes_max is 1048575: choose 1048576 or more"),
        ({"channel_state_bytes_max": 0}, "channel_state_bytes_max is 0: choose 1048576 or more"),
        (
            {"metadata_bytes_max": 65536},
            "metadata_bytes_max is 65536: choose at least four times inline_bytes_max (20480)",
        ),
        (
            {"metadata_bytes_max": 65535, "inline_bytes_max": 0},
            "metadata_bytes_max is 65535: choose 65536 or more",
        ),
        ({"directory": 1}, "directory is 1: choose a text"),
    ],
)
def test_a_limit_is_refused_with_what_to_choose(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        CheckpointingConfig(**options)
    assert str(raised.value).startswith(message)


def test_no_state_need_be_inline() -> None:
    assert CheckpointingConfig(inline_bytes_max=0).inline_bytes_max == 0


def test_they_are_written_as_the_other_options() -> None:
    environ = {
        "FLINKNET_CHECKPOINTING_DIRECTORY": "/checkpoints",
        "FLINKNET_CHECKPOINTING_PART_BYTES_MAX": "1GiB",
    }
    loaded = load_settings(None, environ, {"checkpointing.retained": 5}).config.checkpointing
    assert loaded == CheckpointingConfig("/checkpoints", retained=5, part_bytes_max=1024**3)
