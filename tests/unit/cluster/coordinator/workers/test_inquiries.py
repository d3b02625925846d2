"""Routing answers to the waiting questions."""

from __future__ import annotations

import asyncio

import pytest

from flinknet.cluster.control.messages import Message, StatisticsRequest
from flinknet.cluster.coordinator.workers.inquiries import Inquiries


class Asked:
    """Inquiries, with their sent messages."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Message]] = []
        self.inquiries = Inquiries[str](lambda *sent: self.sent.append(sent))

    def ask(self, worker_id: str, timeout_s: float = 60.0) -> asyncio.Task[str | None]:
        return asyncio.create_task(
            self.inquiries.ask(worker_id, lambda number: StatisticsRequest(number, 0), timeout_s)
        )


async def test_each_question_has_its_own_answer() -> None:
    asked = Asked()
    first, second = asked.ask("worker-0"), asked.ask("worker-0")
    await asyncio.sleep(0)
    assert asked.sent == [("worker-0", StatisticsRequest(number, 0)) for number in (1, 2)]
    assert asked.inquiries.take("worker-0", 2, "two")
    assert asked.inquiries.take("worker-0", 1, "one")
    assert (await first, await second) == ("one", "two")


async def test_only_the_worker_that_was_asked_answers_and_once() -> None:
    asked = Asked()
    asking = asked.ask("worker-0")
    await asyncio.sleep(0)
    assert not asked.inquiries.take("worker-1", 1, "mine")
    assert not asked.inquiries.take("worker-0", 2, "of another question")
    assert asked.inquiries.take("worker-0", 1, "one")
    assert not asked.inquiries.take("worker-0", 1, "again")
    assert await asking == "one"
    assert not asked.inquiries.take("worker-0", 1, "late")


async def test_a_question_to_a_lost_worker_has_no_answer() -> None:
    asked = Asked()
    lost, other = asked.ask("worker-0"), asked.ask("worker-1")
    await asyncio.sleep(0)
    asked.inquiries.forget("worker-0")
    assert await lost is None
    assert asked.inquiries.take("worker-1", 2, "there")
    assert await other == "there"


async def test_a_question_times_out() -> None:
    asked = Asked()
    with pytest.raises(TimeoutError):
        await asked.ask("worker-0", timeout_s=0.0)
    assert not asked.inquiries.take("worker-0", 1, "late")
