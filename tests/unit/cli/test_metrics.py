"""``flinknet metrics``: of a job and its operators, all metrics or those with matching names."""

from __future__ import annotations

import json

import pytest

from tests.unit.cli.commands import Terminal, run_endless_job
from tests.unit.cluster.running_cluster import running_cluster


async def test_metrics_are_shown_by_flinks_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster() as cluster:
        terminal = Terminal(cluster.served, capsys, monkeypatch)
        record = await run_endless_job(cluster)
        printed = await terminal.print("metrics", "endless")
        assert "the job" in printed
        assert {"numRestarts", "numRecordsOut", "buffers.outPoolUsage"} <= set(printed.split())

        told = json.loads(await terminal.print("metrics", "endless", "numRecords*", "--json"))
        assert told["job"] == {}
        names = {name for one in told["operators"] for name in one["metrics"]}
        assert {"numRecordsIn", "numRecordsOut"} <= names
        assert all(name.startswith("numRecords") for name in names)
        source = next(one for one in told["operators"] if one["name"].startswith("Source"))
        moved = source["metrics"]["numRecordsOut"]
        assert 0 < moved["min"] <= moved["avg"] <= moved["max"] <= moved["sum"]

        printed = await terminal.print("metrics", "endless", "*Ratio", "num*", "--operator=Source")
        assert "the job" not in printed
        assert "numRecordsOut" in printed
        assert source["name"] in printed
        cluster.served.coordinator.cancel(record)
        await cluster.served.coordinator.wait_for_end(record, 60.0)


async def test_unknown_metrics_are_errors(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_cluster() as cluster:
        terminal = Terminal(cluster.served, capsys, monkeypatch)
        record = await run_endless_job(cluster)
        status, printed, error = await terminal.type("metrics", "endless", "speed", "depth")
        assert (status, printed) == (2, "")
        assert "job endless has no metric speed or depth: `flinknet metrics endless` lists" in error
        status, _, error = await terminal.type("metrics", "endless", "--operator=Nobody")
        assert status == 2
        assert "at an operator with 'Nobody' in its name" in error
        cluster.served.coordinator.cancel(record)
        await cluster.served.coordinator.wait_for_end(record, 60.0)
