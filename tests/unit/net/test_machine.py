"""Missing resources of the machine are reported before anything starts."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
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


ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, where it may change the limits."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize(("hard", "works"), [(100, False), (2_000, True)])
def test_limits_are_held_against_the_open_files_of_the_process(hard: int, works: bool) -> None:
    """The soft limit is raised if the hard one allows it; otherwise the error names both."""
    ran = run(
        """
        import asyncio, resource, sys
        from flinknet import NetworkConfig, NetworkEnvironment
        from flinknet.errors import ConfigurationError

        hard = int(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))

        async def main():
            async with NetworkEnvironment(config=NetworkConfig(network_memory_bytes=2**20)):
                print("soft", resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1024)

        try:
            asyncio.run(main())
        except ConfigurationError as error:
            print("refused", error)
        """,
        str(hard),
    )
    assert ran.returncode == 0, ran.stderr
    if works:
        assert ran.stdout == "soft True\n"
    else:
        for part in ("refused", "RLIMIT_NOFILE", "100", "network.wire.accepted_connections_max (1"):
            assert part in ran.stdout


@pytest.mark.parametrize("hard", [20, 64, 100, 255, 1000])
def test_the_advice_for_a_low_limit_can_be_followed(hard: int) -> None:
    """It names the options in full, as the configuration accepts them, or raises the limit."""
    ran = run(
        """
        import re, resource, sys
        from flinknet.config.loading import load_settings
        from flinknet.errors import ConfigurationError
        from flinknet.net.machine import open_files_needed, provide_open_files

        hard = int(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        settings = {}
        try:
            provide_open_files(load_settings(None, {}, settings).config.network)
        except ConfigurationError as error:
            print(error)
            enough = int(re.findall(r"at least ([0-9]+)", str(error))[0])
            default = load_settings(None, {}, {}).config.network
            assert open_files_needed(default, enough) <= enough
            settings = dict(re.findall(r"(network[.][a-z_.]+) to ([0-9]+)", str(error)))
        settings = {name: int(value) for name, value in settings.items()}
        if settings:
            provide_open_files(load_settings(None, {}, settings).config.network)
            print("it works with", settings)
        """,
        str(hard),
    )
    assert ran.returncode == 0, ran.stderr
    assert "raise the hard limit to at least" in ran.stdout
    assert ("it works with {'network.wire.accepted" in ran.stdout) == (hard >= 64)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_process_without_a_file_left_goes_on_with_the_connections_it_has(loop: str) -> None:
    """It logs this once in a while, and accepts again when files are free."""
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    ran = run(
        """
        import asyncio, os, resource, socket, sys
        from flinknet import NetworkConfig, NetworkEnvironment, PartitionLocation
        from flinknet.config import WireLimits

        config = NetworkConfig(
            network_memory_bytes=2**20,
            wire=WireLimits(accepted_connections_max=8, pending_handshakes_max=8),
        )
        lines = []

        async def main():
            asyncio.get_running_loop().set_exception_handler(lambda _, context: lines.append(1))
            async with (
                NetworkEnvironment(config=config) as producer,
                NetworkEnvironment(config=config) as consumer,
            ):
                partition = producer.create_result_partition("p", subpartitions=1)
                writer = producer.create_record_writer(partition, buffer_timeout_ms=0)
                location = PartitionLocation(producer.address, "p", 0)
                reader = consumer.create_record_reader(consumer.create_input_gate([location]))

                async def exchange(record):
                    await writer.emit(record)
                    batch = await reader.next_batch()
                    assert list(batch) == [record]

                await exchange(0)
                host, _, port = producer.address.rpartition(":")
                strangers = [socket.socket() for _ in range(20)]
                for stranger in strangers:
                    stranger.setblocking(False)
                kept = []
                try:
                    while True:
                        kept.append(os.open(os.devnull, os.O_RDONLY))
                except OSError:
                    pass
                for stranger in strangers:
                    stranger.connect_ex((host, int(port)))
                for record in range(1, 300):
                    await exchange(record)
                for descriptor in kept:
                    os.close(descriptor)
                for stranger in strangers:
                    stranger.close()
                reader.close()
                writer.close()
            print(len(lines))

        if sys.argv[1] == "uvloop":
            import uvloop
            asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
        asyncio.run(main())
        """,
        loop,
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < 20, "one line per pause, not one per connection that waits"
