"""``flinknet cancel``: running, ended and unknown jobs, by id and by name."""

from __future__ import annotations

import pytest

from flinknet.cli.main import main
from flinknet.cluster.control.credentials import TOKEN_VARIABLE
from tests.unit.cli.commands import Terminal, run_endless_job
from tests.unit.cluster.running_cluster import running_cluster


def test_without_a_cluster_nothing_is_cancelled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "a-secret-of-the-tests")
    with pytest.raises(SystemExit) as ended:
        main(["cancel", "sums", "--coordinator=127.0.0.1:1"])
    assert ended.value.code == 2
    assert "the coordinator at 127.0.0.1:1 cannot be reached" in capsys.readouterr().err


async def test_a_job_has_the_same_answers_by_name_and_by_id(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster() as cluster:
        terminal = Terminal(cluster.served, capsys, monkeypatch)
        ids = []
        for _ in range(2):
            ids.append((await run_endless_job(cluster)).job_id)
            assert await terminal.type("cancel", "endless") == (0, "CANCELED\n", "")
        for ended in (*ids, "endless"):
            assert await terminal.type("cancel", ended) == (0, "CANCELED\n", "")
            status, _, error = await terminal.type("stop", ended, "--savepoint-path=/x")
            assert status == 1, error
        assert f"({ids[-1]})" in await terminal.print("job", "endless"), "the last of this name"
        for unknown in ("sums", "0" * 32):
            for command in ("cancel", "stop", "savepoint", "job", "diagnose", "metrics", "top"):
                status, _, error = await terminal.type(command, unknown)
                assert (status, f'has no job "{unknown}"; running jobs: none' in error) == (2, True)


async def test_a_name_of_several_running_jobs_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster() as cluster:
        terminal = Terminal(cluster.served, capsys, monkeypatch)
        records = [await run_endless_job(cluster) for _ in range(2)]
        status, _, error = await terminal.type("cancel", "endless")
        assert status == 2
        assert f"give one of their ids: {records[0].job_id}, {records[1].job_id}" in error
        for record in records:
            await terminal.print("cancel", record.job_id)
