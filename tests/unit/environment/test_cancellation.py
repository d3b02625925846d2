"""A cancellation of a task is distinguished from a CancelledError raised by its code."""

from __future__ import annotations

import asyncio

import pytest

from flinknet.environment.cancellation import is_cancelled


async def test_a_cancelled_task_is_told_from_a_stray_error() -> None:
    async def wait() -> bool:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            return is_cancelled(error) and not is_cancelled(ValueError())
        raise AssertionError("it waits for ever")

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    assert await task


@pytest.mark.parametrize("error", [asyncio.CancelledError(), SystemExit(3), ValueError()])
async def test_nothing_that_code_raises_is_a_cancellation(error: BaseException) -> None:
    assert not is_cancelled(error)
