"""Names in a directory: a partition's producer is found as long as it lives."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from flinknet.errors import ConfigurationError
from flinknet.net.network_environment import NetworkEnvironment
from flinknet.net.partition_directory import PartitionDirectory


def test_a_publication_exists_until_it_is_closed(tmp_path: Path) -> None:
    directory = PartitionDirectory(tmp_path / "names", "job")
    assert directory.addresses("readings") == []
    second = directory.publish("readings", "b", "127.0.0.1:2")
    first = directory.publish("readings", "a", "127.0.0.1:1")
    assert directory.addresses("readings") == ["127.0.0.1:1", "127.0.0.1:2"]
    first.close()
    first.close()
    assert directory.addresses("readings") == ["127.0.0.1:2"]
    second.close()
    assert directory.addresses("readings") == []


@pytest.mark.parametrize("name", ["..", "a/b", ".hidden", "", "%2F", "ünïcode"])
def test_any_name_is_one(tmp_path: Path, name: str) -> None:
    directory = PartitionDirectory(tmp_path / "names", name)
    with_name = directory.publish(name, name or "worker", "127.0.0.1:1")
    assert directory.addresses(name) == ["127.0.0.1:1"]
    assert directory.addresses("other") == []
    assert PartitionDirectory(tmp_path / "names", "other").addresses(name) == []
    assert [path.name for path in tmp_path.iterdir()] == ["names"], "nothing is beside it"
    with_name.close()


def test_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    """A file without a lock belongs to no process."""
    directory = PartitionDirectory(tmp_path, "job")
    directory.publish("readings", "here", "127.0.0.1:1").close()
    left = tmp_path / "job-job" / "partition-readings" / "gone"
    left.write_text("127.0.0.1:9")
    assert directory.addresses("readings") == []
    assert not left.exists()


def test_a_worker_that_comes_again_is_not_removed_with_what_it_had_left(tmp_path: Path) -> None:
    directory = PartitionDirectory(tmp_path, "job")
    before = directory.publish("readings", "a", "127.0.0.1:1")
    after = directory.publish("readings", "a", "127.0.0.1:2")
    before.close()
    assert directory.addresses("readings") == ["127.0.0.1:2"]
    after.close()
    assert directory.addresses("readings") == []


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    directory = PartitionDirectory(tmp_path / "file", "job")
    with pytest.raises(ConfigurationError, match=r"file cannot be used .*choose a directory where"):
        directory.publish("readings", "a", "127.0.0.1:1")
    with pytest.raises(ConfigurationError, match="file cannot be used"):
        directory.addresses("readings")


async def test_environments_find_each_other_by_names(tmp_path: Path) -> None:
    """Neither side knows the other's port, and the reader comes first."""
    async with (
        NetworkEnvironment(directory=tmp_path) as here,
        NetworkEnvironment(directory=tmp_path) as there,
    ):

        async def read() -> list[int]:
            async with there.open_reader("numbers") as reader:
                return [number async for number in reader]

        async def write() -> None:
            async with here.open_writer("numbers") as writer:
                await writer.emit_many(range(100))

        numbers, _ = await asyncio.gather(read(), write())
        assert numbers == list(range(100))
        with pytest.raises(ConfigurationError, match="producers is 0"):
            async with there.open_reader("numbers", producers=0):
                pass
        with pytest.raises(ConfigurationError, match="has no name"):
            async with there.open_reader(["127.0.0.1:1"]):
                pass


async def test_a_writer_that_cannot_be_made_is_not_published(tmp_path: Path) -> None:
    async with NetworkEnvironment(directory=tmp_path) as environment:
        with pytest.raises(ConfigurationError):
            async with environment.open_writer("numbers", buffer_timeout_ms=-7):
                pass
    assert PartitionDirectory(tmp_path, "embedded").addresses("numbers") == []


async def test_without_a_directory_an_address_is_needed() -> None:
    async with NetworkEnvironment() as environment:
        with pytest.raises(ConfigurationError, match=r"NetworkEnvironment\(directory=\.\.\.\)"):
            async with environment.open_reader("numbers"):
                pass
