"""The simulated machine has the names of the real one, and its threads take turns."""

from __future__ import annotations

import pytest

from flinknet import machine as real
from tests.sim import machine
from tests.sim.loop import Line, SimLoop


def test_both_machines_have_the_same_names() -> None:
    assert machine.__all__ == real.__all__


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> SimLoop:
    loop = SimLoop()
    monkeypatch.setattr(machine, "world", machine._World())
    machine.begin(loop, 1)
    return loop


def test_threads_run_one_at_a_time_in_the_order_in_which_they_become_ready(loop: SimLoop) -> None:
    said: list[str] = []
    questions, answers = machine.SimpleQueue(), machine.SimpleQueue()
    ended = machine.Event()

    def answer() -> None:
        while (question := questions.get()) is not None:
            said.append(f"answers {question}")
            answers.put(question)

    def watch() -> None:
        while not ended.wait(10.0):
            said.append(f"looks at {machine.monotonic():g}")

    threads = [machine.Thread(target=answer), machine.Thread(target=watch)]
    for thread in threads:
        thread.start()
    questions.put("one")
    assert answers.get() == "one", "the loop's thread lets others run while it waits"
    loop.call_later(25.0, loop.stop)
    loop.run_forever()
    ended.set()
    questions.put(None)
    for thread in threads:
        thread.join()
    assert said == ["answers one", "looks at 10", "looks at 20"]
    assert machine.all_threads() == []
    loop.close()


def test_a_wait_that_nothing_can_end_is_an_error(loop: SimLoop) -> None:
    with pytest.raises(machine.StuckError, match="no thread can run"):
        machine.SimpleQueue().get()
    with pytest.raises(machine.StuckError, match="no timer is set"):
        loop.run_until_complete(loop.create_future())
    loop.close()


def test_data_sent_at_the_same_time_arrives_in_order(loop: SimLoop) -> None:
    """Data that is sent at the same time arrives in order, although timers have no such order."""
    line, arrived = Line(loop), list[int]()
    for number in range(20):
        line.send(arrived.append, number)
    loop.call_later(1.0, loop.stop)
    loop.run_forever()
    assert arrived == list(range(20))
    loop.close()
