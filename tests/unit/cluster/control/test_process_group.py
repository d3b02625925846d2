"""Processes started by user code end with the leader of their process group."""

from __future__ import annotations

import signal
import subprocess
import sys

from flinknet.cluster.control.process_group import kill_group

START_AND_LEAVE = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; print('begun', flush=True); time.sleep(600)"])
sys.stdin.read()
"""
"""Starts a process that keeps standard output open, and ends with its standard input."""

KILL_OWN = "from flinknet.cluster.control.process_group import kill_own_group; kill_own_group()"


def test_processes_that_a_leader_leaves_are_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_LEAVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as leader:
        assert leader.stdin is not None
        assert leader.stdout is not None
        assert leader.stdout.readline() == b"begun\n"
        leader.stdin.close()
        assert leader.wait(30) == 0
        kill_group(leader.pid)
        assert leader.stdout.read() == b"", "the pipe ends with the last process that holds it"
    kill_group(leader.pid)


def test_a_leader_kills_itself_with_its_group() -> None:
    leader = subprocess.run([sys.executable, "-c", KILL_OWN], start_new_session=True, check=False)
    assert leader.returncode == -signal.SIGKILL


def test_a_process_that_leads_no_group_kills_no_other() -> None:
    member = subprocess.run([sys.executable, "-c", KILL_OWN], check=False)
    assert member.returncode == 0
