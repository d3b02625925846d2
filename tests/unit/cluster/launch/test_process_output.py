"""The output of a cluster's processes, and the parts of it that are shown."""

from __future__ import annotations

import json

import pytest

from flinknet.cluster.launch.process_output import (
    COORDINATOR,
    output_printer,
    print_json_output,
    print_output,
    print_printed,
)
from flinknet.config import ClusterConfig


def test_the_output_of_workers_and_the_errors_of_the_coordinator_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_output("worker-1", "INFO a line")
    for line in ("INFO a: another", "DEBUG a: one more", "WARNING a: a file is gone", "{"):
        print_output(COORDINATOR, line)
    assert capsys.readouterr().err.splitlines() == [
        "worker-1 | INFO a line",
        "coordinator | WARNING a: a file is gone",
        "coordinator | {",
    ]


def test_output_of_user_code_does_not_control_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_output("worker-1", "\x1b[31m\ud800")
    print_printed("\x1b[32m")
    assert capsys.readouterr() == ("\\x1b[32m\n", "worker-1 | \\x1b[31m\\ud800\n")


def test_lines_of_json_logs_stay_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json_output("worker-1", '{"message": "logged"}')
    print_json_output("worker-1", "Fatal Python error")
    print_json_output(COORDINATOR, '{"level": "INFO"}')
    print_json_output(COORDINATOR, '{"level": "ERROR"}')
    assert [json.loads(line) for line in capsys.readouterr().err.splitlines()] == [
        {"message": "logged"},
        {"process": "worker-1", "message": "Fatal Python error"},
        {"level": "ERROR"},
    ]


def test_the_form_is_the_configured_one() -> None:
    assert output_printer(ClusterConfig()) is print_output
    assert output_printer(ClusterConfig(log_format="json")) is print_json_output
