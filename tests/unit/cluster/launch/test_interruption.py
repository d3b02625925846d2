"""Interruptions of a program that waits for its job."""

from __future__ import annotations

import asyncio
import os
import signal
from types import FrameType

import pytest

from flinknet.cluster.launch.interruption import (
    Interruption,
    _plain_interrupts,
    check_no_loop_runs,
    run_interruptible,
)
from flinknet.cluster.launch.job_control import JobControl
from flinknet.errors import ConfigurationError


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_program_when_the_work_has_ended(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []
    before = signal.signal(number, signal.SIG_DFL)

    async def work(interruption: Interruption) -> None:
        os.kill(os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    try:
        with pytest.raises(SystemExit) as end:
            run_interruptible(work, JobControl())
    finally:
        signal.signal(number, before)
    assert (end.value.code, ended) == (128 + number, [True])


def test_a_reader_that_has_left_ends_the_work() -> None:
    def printed(line: str) -> None:
        raise BrokenPipeError

    async def work(interruption: Interruption) -> None:
        interruption.begin_at_broken_pipe(printed)("a line")
        await asyncio.Event().wait()

    with pytest.raises(BrokenPipeError):
        run_interruptible(work, JobControl())


async def test_a_running_loop_is_not_blocked() -> None:
    with pytest.raises(ConfigurationError, match="execute_async"):
        check_no_loop_runs()


@pytest.mark.parametrize("module", ["pyspark.core.context", "of_the_program"])
def test_only_sparks_interrupt_handler_is_replaced(module: str) -> None:
    """That handler cancels the workers before their job. A program's own handler is left alone."""

    def handler(number: int, frame: FrameType | None) -> None:
        pass

    handler.__module__ = module
    before = signal.signal(signal.SIGINT, handler)
    try:
        with _plain_interrupts():
            is_kept = signal.getsignal(signal.SIGINT) is handler
        assert is_kept == (module == "of_the_program")
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)
