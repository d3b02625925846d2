"""The launcher's reports to its coordinator."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from flinknet.cluster.coordinator.launcher_events import LauncherEvents
from tests.unit.cluster.control_plane import (
    ServedCoordinator,
)


async def test_the_launcher_reports_the_end_of_a_worker(served: ServedCoordinator) -> None:
    launcher = LauncherEvents(served.coordinator, asyncio.get_running_loop())
    async with served.worker("worker-0"):
        news = {"event": "worker_started", "worker_id": "worker-0", "pid": 4711}
        launcher.hear(json.dumps(news).encode())
        how = "killed by signal 9 (SIGKILL)"
        news = {"event": "worker_exited", "worker_id": "worker-0", "how": how}
        await asyncio.to_thread(launcher.hear, json.dumps(news).encode())
        worker = served.coordinator.dispatcher.workers.get("worker-0")
        while served.coordinator.registered_workers():
            await asyncio.sleep(0)
        assert worker is not None
        assert worker.loss is not None
        assert worker.loss.message == how
        launcher.ended()
        with pytest.raises(AssertionError, match="unknown event of the launcher: hello"):
            launcher.hear(b'{"event": "hello", "worker_id": "worker-0"}')


async def test_the_state_directory_of_a_launcher_is_removed_with_it(
    served: ServedCoordinator, tmp_path: Path
) -> None:
    (tmp_path / "state" / "jobs").mkdir(parents=True)
    loop = asyncio.get_running_loop()
    LauncherEvents(served.coordinator, loop, str(tmp_path / "state")).ended()
    assert not (tmp_path / "state").exists()
