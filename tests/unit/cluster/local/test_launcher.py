"""A launcher without watcher and client: real processes, started and stopped."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flinknet.cluster.control.credentials import TOKEN_VARIABLE, new_token
from flinknet.cluster.local.launcher import Launcher, finish_stopping
from flinknet.compiled_modules import PURE_VARIABLE
from flinknet.config import ClusterConfig, FlinknetConfig


class Events(asyncio.Queue[str]):
    """What the coordinator tells its launcher."""

    async def expect(self, event: str) -> dict[str, str]:
        """The next event, which must be this one."""
        news: dict[str, str] = json.loads(await self.get())
        assert news["event"] == event
        return news


def ignore(process: str, line: str) -> None:
    """Output that no test looks at."""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def shown(pid: int, what: str) -> str:
    return Path(f"/proc/{pid}/{what}").read_text()


async def test_coordinator_and_worker_find_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The children get the whole configuration, the hash seed of that whatever this process's own
    is, and the token, which no command line shows."""
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    config = FlinknetConfig(cluster=ClusterConfig(workers=1, slots_per_worker=3, hash_seed=7))
    token, events = new_token(), Events()
    launcher = Launcher(config, token, ignore)
    try:
        coordinator = await launcher.start_coordinator(events.put_nowait)
        address = (await events.expect("listening"))["address"]
        worker = await launcher.start_worker(0, address)
        await events.expect("ready")
        assert launcher.pids() == {"coordinator": coordinator.pid, "worker-0": worker.pid}
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
    """Neither from the working directory nor from another directory of the program's path."""
    own, working = tmp_path / "own", tmp_path / "working"
    ran = tmp_path / "ran"
    for directory in (own, working):
        directory.mkdir()
        for module in ("attr", "aiohttp", "msgpack", "prometheus_client", "tomllib"):
            (directory / f"{module}.py").write_text(f"open({str(ran)!r}, 'a').write(__file__)")
    monkeypatch.chdir(working)
    monkeypatch.setattr(sys, "path", [str(own), *sys.path])
    config = FlinknetConfig(cluster=ClusterConfig(workers=1))
    launcher, events = Launcher(config, new_token(), ignore), Events()
    try:
        await launcher.start_coordinator(events.put_nowait)
        address = (await events.expect("listening"))["address"]
        await launcher.start_worker(0, address)
        await events.expect("ready")
    finally:
        await launcher.stop()
    assert not ran.exists()


async def test_plain_python_is_asked_for_in_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PURE_VARIABLE, "1")
    launcher, events = Launcher(FlinknetConfig(), new_token(), ignore), Events()
    try:
        child = await launcher.start_coordinator(events.put_nowait)
        await events.expect("listening")
        assert f"{PURE_VARIABLE}=1" in shown(child.pid, "environ").split("\0")
    finally:
        await launcher.stop()


async def test_a_stop_that_is_cancelled_kills() -> None:
    launcher, events = Launcher(FlinknetConfig(), new_token(), ignore), Events()
    child = await launcher.start_coordinator(events.put_nowait)
    await events.expect("listening")
    os.kill(child.pid, signal.SIGSTOP)  # it does not hear SIGTERM
    stopping = asyncio.create_task(finish_stopping(launcher.stop(), launcher.kill))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert not child.is_running


async def test_what_was_never_started_is_stopped_at_once() -> None:
    launcher = Launcher(FlinknetConfig(), new_token(), ignore)
    await finish_stopping(launcher.stop(), launcher.kill)
    assert launcher.pids() == {}


async def test_a_lost_worker_is_replaced_under_another_name() -> None:
    """What is left of it is killed first, even if it hears nothing."""
    config = FlinknetConfig(cluster=ClusterConfig(workers=1))
    launcher, events = Launcher(config, new_token(), ignore), Events()
    try:
        await launcher.start_coordinator(events.put_nowait)
        address = (await events.expect("listening"))["address"]
        lost = await launcher.start_worker(0, address)
        await events.expect("ready")
        os.kill(lost.pid, signal.SIGSTOP)
        second = await launcher.replace_worker("worker-0", address)
        assert not is_running(lost.pid)
        third = await launcher.replace_worker("worker-0.1", address)
        assert [second.name, third.name] == ["worker-0.1", "worker-0.2"]
        assert launcher.pids().keys() == {"coordinator", "worker-0.2"}
    finally:
        await launcher.stop()


@pytest.mark.parametrize(
    "options", [[], ["-O", "-O", "-b", "-Werror::UserWarning", "-Wignore:a text"]]
)
def test_a_worker_gets_the_options_of_the_program(options: list[str]) -> None:
    shown = "from flinknet.cluster.local.launcher import _interpreter_flags as f; print(f())"
    said = subprocess.check_output([sys.executable, *options, "-c", shown], text=True)
    implied = ["-Wdefault::BytesWarning"] if "-b" in options else []
    assert sorted(ast.literal_eval(said)) == sorted(options + implied)
