"""Refused peers are all counted, and few are logged."""

from __future__ import annotations

import logging

import pytest

from flinknet.net.refusal_log import RefusalLog


def test_a_source_has_one_line_a_minute_for_a_reason(caplog: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog()
    with caplog.at_level(logging.WARNING, "flinknet.net"):
        for second in range(100):
            refusals.count("tls", "10.0.0.1", f"attempt {second}", float(second))
        refusals.count("tls", "10.0.0.2", "another", 99.0)
        refusals.count("malformed", "10.0.0.1", "otherwise", 99.0)
    assert refusals.counts == {"tls": 101, "malformed": 1}
    assert caplog.messages == [
        "refused (tls): attempt 0",
        "refused (tls): attempt 60 (59 more since the last line)",
        "refused (tls): another",
        "refused (malformed): otherwise",
    ]


def test_many_sources_take_no_more_memory_than_a_few(caplog: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog()
    for number in range(10_000):
        refusals.count("tls", f"10.0.{number}", "strange", 0.0)
    assert refusals.counts == {"tls": 10_000}
    assert len(refusals._logged) == 256


def test_refusals_without_a_fault_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    refusals = RefusalLog()
    with caplog.at_level(logging.INFO, "flinknet.net"):
        for reason in ("duplicate", "closing", "silent"):
            refusals.count(reason, "10.0.0.1", "expected", 0.0)
    assert refusals.counts.total() == 3
    assert caplog.messages == []
