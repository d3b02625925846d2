"""What the processes of a cluster write, and what of it is shown."""

from __future__ import annotations

import pytest

from flinknet.cluster.local.process_output import COORDINATOR, print_output


def test_workers_are_shown_and_the_coordinator_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    print_output("worker-1", "a line")
    print_output(COORDINATOR, "another")
    assert capsys.readouterr() == ("", "worker-1 | a line\n")


def test_what_user_code_prints_is_no_command_to_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_output("worker-1", "\x1b[31m\ud800")
    assert capsys.readouterr().err == "worker-1 | \\x1b[31m\\ud800\n"
