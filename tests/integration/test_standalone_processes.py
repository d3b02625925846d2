"""Coordinator and worker without a launcher, as in a container."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flinknet.cluster.control.credentials import TOKEN_VARIABLE, new_token
from tests.free_port import free_port

PATIENCE_S = 60.0


@contextmanager
def process(module: str, *arguments: str, token: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", f"flinknet.cluster.{module}", *arguments],
        env={**os.environ, TOKEN_VARIABLE: token, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def event(coordinator: subprocess.Popen[str]) -> dict[str, str]:
    assert coordinator.stdout is not None
    news: dict[str, str] = json.loads(coordinator.stdout.readline())
    return news


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_coordinator(tmp_path: Path, number: signal.Signals) -> None:
    """A stopping coordinator sends its workers away, with status 0.

    If it is killed, and no other comes in its place, its workers have lost it, with status 3.
    """
    token = new_token()
    config = tmp_path / "cluster.toml"
    config.write_text("[cluster]\nworkers = 1\ncoordinator_return_ms = 100\n")
    with process("coordinator", f"--config={config}", token=token) as coordinator:
        address = event(coordinator)["address"]
        where = f"--coordinator={address}"
        with process("worker", where, "--worker-id=alone", token=token) as worker:
            assert event(coordinator) == {"event": "ready"}
            coordinator.send_signal(number)
            assert worker.wait(PATIENCE_S) == (3 if number == signal.SIGKILL else 0)
        assert coordinator.wait(PATIENCE_S) == (-9 if number == signal.SIGKILL else 0)


def test_a_worker_that_is_started_first_waits_for_its_coordinator(tmp_path: Path) -> None:
    """A worker that is started first reports its wait once, and joins; SIGTERM ends the wait."""
    token = new_token()
    port = free_port()
    config = tmp_path / "cluster.toml"
    config.write_text(f"[cluster]\nworkers = 1\ncoordinator_port = {port}\n")
    arguments = (f"--coordinator=127.0.0.1:{port}", f"--config={config}")
    with (
        process("worker", *arguments, "--worker-id=first", token=token) as first,
        process("worker", *arguments, "--worker-id=other", token=token) as other,
    ):
        for worker in (first, other):
            assert worker.stderr is not None
            said = worker.stderr.readline()
            assert said.startswith("waiting for the coordinator for up to 300000 ms"), said
            assert f"no coordinator at 127.0.0.1:{port}: " in said
        other.send_signal(signal.SIGTERM)
        assert other.communicate(timeout=PATIENCE_S)[1] == ""
        assert other.returncode == 0
        with process("coordinator", f"--config={config}", token=token) as coordinator:
            assert event(coordinator)["event"] == "listening"
            assert event(coordinator) == {"event": "ready"}
            coordinator.send_signal(signal.SIGTERM)
            assert first.communicate(timeout=PATIENCE_S)[1] == ""
        assert first.returncode == 0


@pytest.mark.parametrize(
    ("address", "status", "reason"),
    [
        ("127.0.0.1:{port}", 3, "lost the coordinator: no coordinator has answered for 300 ms: "),
        ("127.0.0.1:{port}0000", 2, "is not an address: write host:port"),
        ("somewhere", 2, "is not an address: write host:port"),
    ],
)
def test_a_worker_that_finds_no_coordinator_says_why(
    tmp_path: Path, address: str, status: int, reason: str
) -> None:
    config = tmp_path / "cluster.toml"
    config.write_text("[cluster]\ncoordinator_wait_ms = 300\n")
    where = f"--coordinator={address.format(port=free_port())}"
    arguments = (where, "--worker-id=alone", f"--config={config}")
    with process("worker", *arguments, token=new_token()) as worker:
        _, errors = worker.communicate(timeout=PATIENCE_S)
    assert (worker.returncode, reason in errors) == (status, True), errors


def test_a_worker_started_by_hand_hashes_as_the_cluster_does(tmp_path: Path) -> None:
    """A worker's own configuration must have the hash seed of the coordinator."""
    token = new_token()
    config, other = tmp_path / "cluster.toml", tmp_path / "other.toml"
    config.write_text("[cluster]\nworkers = 1\n")
    other.write_text("[cluster]\nhash_seed = 5\n")
    with process("coordinator", f"--config={config}", token=token) as coordinator:
        where = f"--coordinator={event(coordinator)['address']}"
        arguments = (where, "--worker-id=other", f"--config={other}")
        with process("worker", *arguments, token=token) as worker:
            _, errors = worker.communicate(timeout=PATIENCE_S)
            assert worker.returncode == 2
            assert "worker other hashes text differently from this cluster" in errors
            assert "cluster.hash_seed" in errors
        with process("worker", where, "--worker-id=same", token=token):
            assert event(coordinator) == {"event": "ready"}


def test_a_worker_that_is_behind_still_hears_that_it_is_to_stop(tmp_path: Path) -> None:
    """A worker that is behind receives the message to stop.

    The coordinator must not close its socket while the worker still sends. The reset would discard
    the unread Stop, so that the worker would report a lost coordinator.
    """
    token = new_token()
    config = tmp_path / "cluster.toml"
    config.write_text("[cluster]\nworkers = 1\nstop_timeout_ms = 60_000\n")
    with process("coordinator", f"--config={config}", token=token) as coordinator:
        where = f"--coordinator={event(coordinator)['address']}"
        with process("worker", where, "--worker-id=behind", token=token) as behind:
            assert event(coordinator) == {"event": "ready"}
            behind.send_signal(signal.SIGSTOP)
            coordinator.send_signal(signal.SIGTERM)
            with process("worker", where, "--worker-id=late", token=token) as late:
                _, errors = late.communicate(timeout=PATIENCE_S)
                assert late.returncode == 2
                assert "worker late is refused: the coordinator is about to end" in errors
            behind.send_signal(signal.SIGCONT)
            _, errors = behind.communicate(timeout=PATIENCE_S)
            assert (behind.returncode, errors) == (0, "")
        assert coordinator.wait(PATIENCE_S) == 0


def test_a_worker_ends_when_its_coordinator_hangs(tmp_path: Path) -> None:
    """Without a launcher, a worker ends by itself when its coordinator hangs."""
    token = new_token()
    config = tmp_path / "cluster.toml"
    config.write_text(
        "[cluster]\nworkers = 1\nheartbeat_interval_ms = 100\ncoordinator_timeout_ms = 1000\n"
        "coordinator_return_ms = 100\n"
    )
    with process("coordinator", f"--config={config}", token=token) as coordinator:
        where = f"--coordinator={event(coordinator)['address']}"
        arguments = (where, "--worker-id=alone", f"--config={config}")
        with process("worker", *arguments, token=token) as worker:
            assert event(coordinator) == {"event": "ready"}
            coordinator.send_signal(signal.SIGSTOP)
            _, errors = worker.communicate(timeout=PATIENCE_S)
            assert worker.returncode == 3
            assert "lost the coordinator: " in errors
            assert "has not answered for 1000 ms" in errors


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="this system has no prlimit")
def test_a_coordinator_without_a_file_left_says_so_once_in_a_while(tmp_path: Path) -> None:
    """A coordinator without file descriptors reports that now and then, and recovers."""
    token = new_token()
    config = tmp_path / "cluster.toml"
    config.write_text("[cluster]\nworkers = 1\n")
    with process("coordinator", f"--config={config}", token=token) as coordinator:
        address = event(coordinator)["address"]
        host, _, port = address.rpartition(":")
        files = len(list(Path(f"/proc/{coordinator.pid}/fd").iterdir()))
        limits = resource.prlimit(coordinator.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(coordinator.pid, resource.RLIMIT_NOFILE, (files + 3, limits[1]))
        strangers = [socket.create_connection((host, int(port))) for _ in range(30)]
        where = f"--coordinator={address}"
        with process("worker", where, "--worker-id=late", token=token) as worker:
            assert coordinator.stderr is not None
            while "out of system resource" not in coordinator.stderr.readline():
                pass
            resource.prlimit(coordinator.pid, resource.RLIMIT_NOFILE, limits)
            assert event(coordinator) == {"event": "ready"}
            coordinator.send_signal(signal.SIGTERM)
            _, errors = coordinator.communicate(timeout=PATIENCE_S)
            assert worker.wait(PATIENCE_S) == 0
        for stranger in strangers:
            stranger.close()
    assert errors.count("out of system resource") < 20


def test_a_worker_that_may_not_join_says_why(tmp_path: Path) -> None:
    token = new_token()
    with process("coordinator", token=token) as coordinator:
        where = f"--coordinator={event(coordinator)['address']}"
        with process("worker", where, "--worker-id=stranger", token=new_token()) as stranger:
            _, errors = stranger.communicate(timeout=PATIENCE_S)
            assert stranger.returncode == 2
            assert "cluster token" in errors
        with process("worker", where, "--worker-id=weak", token="weak") as weak:
            _, errors = weak.communicate(timeout=PATIENCE_S)
            assert weak.returncode == 2
            assert TOKEN_VARIABLE in errors
