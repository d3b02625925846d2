"""Children of the launcher: their configuration, and the directories kept during their lives."""

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

from flinknet.cluster.control.credentials import new_token
from flinknet.cluster.launch.local.children import Children
from flinknet.cluster.launch.process_output import COORDINATOR
from flinknet.config import ClusterConfig, FlinknetConfig


def read(place: Path) -> str:
    return place.read_text()


async def test_jobs_are_kept_for_as_long_as_they_live(tmp_path: Path) -> None:
    """They are in a directory of their own, unless the configuration names one."""
    variable = "FLINKNET_CLUSTER_STATE_DIRECTORY="
    for named in ("", str(tmp_path)):
        config = FlinknetConfig(cluster=ClusterConfig(state_directory=named))
        news: asyncio.Queue[str] = asyncio.Queue()
        children = Children(config, new_token(), lambda *written: None, lambda end: None)
        try:
            await children.start_coordinator(news.put_nowait)
            await news.get()
            place = Path(f"/proc/{children.pids()[COORDINATOR]}/environ")
            environment = read(place).split("\0")
            kept = [Path(one.removeprefix(variable)) for one in environment if variable in one]
        finally:
            await children.stop()
        assert [place.exists() for place in kept] == [bool(named)]


async def test_a_worker_need_not_wait_for_the_coordinator_to_run() -> None:
    """The launcher listens for it, and the system queues the connections that come meanwhile."""
    news: asyncio.Queue[str] = asyncio.Queue()
    children = Children(FlinknetConfig(), new_token(), lambda *written: None, lambda end: None)
    try:
        await children.start_coordinator(news.put_nowait)
        coordinator = children.pids()[COORDINATOR]
        os.kill(coordinator, signal.SIGSTOP)
        listening = json.loads(news.get_nowait())
        assert listening["event"] == "listening"
        host, _, port = listening["address"].rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /livez HTTP/1.0\r\n\r\n")
        os.kill(coordinator, signal.SIGCONT)
        assert (await reader.read()).endswith(b"ok\n")
        writer.close()
        await writer.wait_closed()
    finally:
        await children.stop()


@pytest.mark.parametrize(
    "options", [[], ["-O", "-O", "-b", "-Werror::UserWarning", "-Wignore:a text"]]
)
def test_a_worker_gets_the_options_of_the_program(options: list[str]) -> None:
    shown = "from flinknet.cluster.launch.local.children import interpreter_flags as f; print(f())"
    said = subprocess.check_output([sys.executable, *options, "-c", shown], text=True)
    implied = ["-Wdefault::BytesWarning"] if "-b" in options else []
    assert sorted(ast.literal_eval(said)) == sorted(options + implied)
