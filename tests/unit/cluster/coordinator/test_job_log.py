"""Log lines about the restarts and the end of a job."""

from __future__ import annotations

import logging

import pytest

from flinknet.cluster.control.messages import Released
from flinknet.cluster.coordinator.job_log import JobLog
from flinknet.config.restart_strategy import FixedDelayRestart
from tests.unit.cluster.coordinator.jobs.dispatched import Cluster, Parted


def test_each_restart_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster, log = Cluster(FixedDelayRestart(attempts=9, delay_ms=1_000_000.0)), JobLog()
    record = cluster.running()
    log.restarts(record)
    assert caplog.messages == []
    cluster.fail(record)
    for _ in range(2):
        log.restarts(record)
    (line,) = caplog.messages
    assert line.startswith('job "sums": attempt 0 failed, and the job restarts: ')
    assert line.endswith("boom")
    cluster.dispatcher.starts.begin_attempt(record, cluster.now)
    cluster.open(record)
    cluster.fail(record)
    log.restarts(record)
    assert 'job "sums": attempt 1 failed' in caplog.messages[1]


def test_a_restart_of_regions_names_them(caplog: pytest.LogCaptureFixture) -> None:
    cluster, log = Parted(), JobLog()
    record = cluster.running()
    cluster.right(record, 0)
    for _ in range(2):
        log.restarts(record)
    (line,) = caplog.messages
    assert "regions 2-0 failed and restart" in line
    assert line.endswith("boom")


def test_the_end_names_the_workers_that_hold_slots(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "flinknet.coordinator")
    cluster, log = Cluster(), JobLog()
    record = cluster.running()
    cluster.dispatcher.cancel(record, cluster.now)
    cluster.say("worker-0", Released(record.job_id, 0))
    cluster.pass_time(5.0)
    log.end(record)
    ended, held = caplog.messages
    assert ended == 'job "sums": CANCELED'
    assert held == 'job "sums" has ended, but worker worker-1 has not released its slots'
