"""What the machine lacks is said before anything starts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinknet.config import NetworkConfig
from flinknet.errors import ConfigurationError
from flinknet.net.machine import check_machine
from flinknet.net.network_environment import NetworkEnvironment

INSTALLED = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_a_default_environment_fits() -> None:
    check_machine(NetworkConfig())


def test_memory_counts_for_every_environment() -> None:
    config = NetworkConfig(network_memory_bytes=INSTALLED // 2)
    check_machine(config, 2)
    with pytest.raises(ConfigurationError, match=r"3 workers with network\.network_memory_bytes"):
        check_machine(config, 3)


async def test_an_environment_does_not_start_with_more_memory_than_there_is() -> None:
    with pytest.raises(ConfigurationError, match=r"network\.network_memory_bytes"):
        async with NetworkEnvironment(config=NetworkConfig(network_memory_bytes=2**62)):
            pass


@pytest.mark.parametrize("missing", ["nowhere", "file", "null\0byte", "\udcff"])
def test_a_place_where_no_file_can_be_made_is_refused(tmp_path: Path, missing: str) -> None:
    (tmp_path / "file").touch()
    check_machine(NetworkConfig(spill_directory=str(tmp_path)))
    with pytest.raises(ConfigurationError, match=r"network\.spill_directory is"):
        check_machine(NetworkConfig(spill_directory=f"{tmp_path}/{missing}"))
