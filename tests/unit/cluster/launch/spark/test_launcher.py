"""Spark's launcher before it has a stage.

`tests/contract/test_launchers.py` tests its work with one, and
`tests/integration/test_spark_cluster.py` its failures.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinknet.cluster.control.credentials import new_token
from flinknet.cluster.launch.spark.launcher import SparkLauncher
from flinknet.config import FlinknetConfig, SparkConfig
from flinknet.errors import ConfigurationError


async def test_a_start_without_a_session_is_refused_and_leaves_nothing() -> None:
    config = replace(FlinknetConfig(), spark=SparkConfig(master="no//master"))
    launcher = SparkLauncher(config, new_token(), lambda *written: None)
    with pytest.raises(ConfigurationError, match='"no//master"'):
        launcher.check()
    launcher.kill()
    await launcher.stop()
    await launcher.stop()
