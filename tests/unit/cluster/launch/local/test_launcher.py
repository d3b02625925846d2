"""The local launcher: the settings of its children, and the process ids that it knows."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flinknet.cluster.control.credentials import TOKEN_VARIABLE, new_token
from flinknet.cluster.launch.local.launcher import LocalLauncher
from flinknet.cluster.launch.process_output import COORDINATOR
from flinknet.compiled_modules import PURE_VARIABLE
from flinknet.config import ClusterConfig, FlinknetConfig
from flinknet.errors import JobError


class Events(asyncio.Queue[str]):
    """The coordinator's messages to its launcher."""

    async def expect(self, event: str) -> dict[str, str]:
        """Return the next event, which must be this one."""
        news: dict[str, str] = json.loads(await self.get())
        assert news["event"] == event
        return news


def ignore(process: str, line: str) -> None:
    """Drop output."""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def shown(pid: int, what: str) -> str:
    return Path(f"/proc/{pid}/{what}").read_text()


async def test_coordinator_and_worker_find_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The children get the whole configuration, with its hash seed in place of this process's own.

    They get the token, too, which no command line shows.
    """
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    config = FlinknetConfig(cluster=ClusterConfig(workers=1, slots_per_worker=3, hash_seed=7))
    token, events = new_token(), Events()
    launcher = LocalLauncher(config, token, ignore)
    try:
        await launcher.start_coordinator(events.put_nowait)
        address = (await events.expect("listening"))["address"]
        await launcher.start_workers(1, address)
        await events.expect("ready")
        assert launcher.pids().keys() == {COORDINATOR, "worker-0"}
        for pid in launcher.pids().values():
            assert token not in shown(pid, "cmdline")
            environment = shown(pid, "environ").split("\0")
            assert f"{TOKEN_VARIABLE}={token}" in environment
            assert "FLINKNET_CLUSTER_SLOTS_PER_WORKER=3" in environment
            assert "PYTHONHASHSEED=7" in environment
    finally:
        await launcher.stop()
    assert not any(map(is_running, launcher.pids().values()))


async def test_no_file_of_the_user_takes_the_place_of_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file may be in the working directory or in another directory of the program's path."""
    own, working = tmp_path / "own", tmp_path / "working"
    ran = tmp_path / "ran"
    for directory in (own, working):
        directory.mkdir()
        for module in ("attr", "aiohttp", "msgpack", "prometheus_client", "tomllib"):
            (directory / f"{module}.py").write_text(f"open({str(ran)!r}, 'a').write(__file__)")
    monkeypatch.chdir(working)
    monkeypatch.setattr(sys, "path", [str(own), *sys.path])
    config = FlinknetConfig(cluster=ClusterConfig(workers=1))
    launcher, events = LocalLauncher(config, new_token(), ignore), Events()
    try:
        await launcher.start_coordinator(events.put_nowait)
        address = (await events.expect("listening"))["address"]
        await launcher.start_workers(1, address)
        await events.expect("ready")
    finally:
        await launcher.stop()
    assert not ran.exists()


async def test_workers_start_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process waits until there is a second one."""
    python = tmp_path / "python"
    os.mkfifo(tmp_path / "second")
    python.write_text(f"""#!/bin/sh
if mkdir {tmp_path}/one 2>/dev/null; then read there < {tmp_path}/second
elif mkdir {tmp_path}/two 2>/dev/null; then echo there > {tmp_path}/second
fi
exec {sys.executable} "$@"
""")
    python.chmod(0o700)
    launcher, events = LocalLauncher(FlinknetConfig(), new_token(), ignore), Events()
    try:
        await launcher.start_coordinator(events.put_nowait)
        address = (await events.expect("listening"))["address"]
        monkeypatch.setattr(sys, "executable", str(python))
        assert await launcher.start_workers(2, address) == ["worker-0", "worker-1"]
        await events.expect("ready")
    finally:
        await launcher.stop()


async def test_no_worker_is_left_if_one_cannot_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launcher = LocalLauncher(FlinknetConfig(), new_token(), ignore)
    monkeypatch.setattr(sys, "executable", "/there/is/no/python")
    try:
        with pytest.raises(JobError, match="worker-. cannot be started: .*no/python"):
            await launcher.start_workers(2, "127.0.0.1:1")
    finally:
        await launcher.stop()
    assert launcher.pids() == {}


async def test_plain_python_is_asked_for_in_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PURE_VARIABLE, "1")
    launcher, events = LocalLauncher(FlinknetConfig(), new_token(), ignore), Events()
    try:
        await launcher.start_coordinator(events.put_nowait)
        await events.expect("listening")
        environment = shown(launcher.pids()[COORDINATOR], "environ").split("\0")
        assert f"{PURE_VARIABLE}=1" in environment
    finally:
        await launcher.stop()


async def test_the_next_coordinator_ends_the_groups_of_the_workers_that_run() -> None:
    """It is told of these workers.

    After the launcher has died, no process started by user code is left.
    """
    program = """\
import asyncio, json, os, sys
from flinknet.cluster.launch.local.launcher import LocalLauncher
from flinknet.config import ClusterConfig, FlinknetConfig

async def main():
    events = asyncio.Queue()
    launcher = LocalLauncher(FlinknetConfig(cluster=ClusterConfig(workers=1)), "t" * 32, print)
    await launcher.start_coordinator(events.put_nowait)
    address = json.loads(await events.get())["address"]
    await launcher.start_workers(1, address)
    await events.get()
    os.kill(launcher.pids()["coordinator"], 9)
    await launcher.next_exit()
    await launcher.start_coordinator(events.put_nowait, int(address.rpartition(":")[2]))
    await events.get()
    print(json.dumps(launcher.pids()), flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""
    said = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert said.returncode == -signal.SIGKILL, said.stderr
    pids = json.loads(said.stdout.splitlines()[-1])
    while any(map(is_running, pids.values())):
        await asyncio.sleep(0)
