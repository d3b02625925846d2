"""Writers are waited for by name, wherever the names are kept."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigurationError, PartitionRequestTimeoutError
from flinknet.net.partition_directory import PartitionDirectory

IMPATIENT = NetworkConfig(rendezvous_timeout_ms=1.0, rendezvous_notice_ms=0.0)


async def test_too_few_writers_are_an_error_with_a_remedy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = PartitionDirectory(tmp_path, "job")
    config = NetworkConfig(rendezvous_timeout_ms=2.0, rendezvous_notice_ms=1.0)
    with pytest.raises(
        PartitionRequestTimeoutError, match=r'0 of 2 writers of "readings".*job "job"'
    ):
        await directory.find("readings", 2, config)
    assert 'waiting for 2 writers of "readings"' in caplog.text
    assert caplog.records[0].levelno == logging.WARNING


async def test_too_many_writers_are_an_error_with_a_remedy(tmp_path: Path) -> None:
    directory = PartitionDirectory(tmp_path, "job")
    published = [directory.publish("readings", worker, "127.0.0.1:1") for worker in "ab"]
    with pytest.raises(ConfigurationError, match="producers=2"):
        await directory.find("readings", 1, IMPATIENT)
    for one in published:
        one.close()
