"""One run of one system: two processes, three rounds, one measurement.

Theory of operation. The rounds are: *check*, one block of which both sides add up a checksum over
every field; *warm-up*, not counted; *measured*. Each must end with the same count and checksum on
both sides. The processes are new for every run, so that no run profits from the one before.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from time import monotonic
from typing import Any

from bench.errors import BenchError
from bench.harness.case import Case
from bench.harness.pinning import Pinning
from bench.harness.side import Assignment, Report, Round, SideFailure, run_side
from bench.harness.system import Contestant

__all__ = ["FULL", "QUICK", "Measurement", "Plan", "measure"]

ANSWER_S_MAX = 30.0
"""How long a side may take beyond the length of a round: starting, draining, closing."""

EXIT_S_MAX = 5.0
"""How long a process may take to end before it is ended."""

SECOND_FAILURE_S = 1.0
"""How long to wait, when one side has failed, for what the other one has to say."""

_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Plan:
    """How often and how long."""

    runs: int
    seconds: float
    warm_up_s: float


FULL = Plan(runs=5, seconds=4.0, warm_up_s=0.5)
QUICK = Plan(runs=3, seconds=1.0, warm_up_s=0.2)


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measured round: records that arrived, on the consumer's clock; CPU seconds of both."""

    records: int
    seconds: float
    cpu_seconds: float
    verified: bool

    @property
    def records_per_s(self) -> float:
        """Records that arrived per second."""
        return self.records / self.seconds

    @property
    def cpu_s_per_million_records(self) -> float:
        """User and system seconds of both processes."""
        return self.cpu_seconds * 1e6 / self.records


def measure(contestant: Contestant, case: Case, plan: Plan, pinning: Pinning) -> Measurement:
    """Run a system once. Raises BenchError if a side fails or does not answer."""
    with _sides(contestant, case, pinning) as (producer, consumer):
        address = _answers([producer], 0.0)[0].address
        consumer.pipe.send(address)
        _answers([consumer], 0.0)
        verified = True
        sent = received = None
        for seconds in (None, plan.warm_up_s, plan.seconds):
            for side in (producer, consumer):
                side.pipe.send(Round(seconds))
            sent, received = _answers([producer, consumer], seconds or 0.0)
            verified = verified and sent.tally == received.tally
        for side in (producer, consumer):
            side.pipe.send(None)
        _answers([producer, consumer], 0.0)
    assert isinstance(sent, Report)
    assert isinstance(received, Report)
    return Measurement(
        received.tally.records,
        received.seconds,
        sent.cpu_seconds + received.cpu_seconds,
        verified,
    )


class _Side:
    """A process that plays one side, and the pipe to it."""

    def __init__(self, assignment: Assignment) -> None:
        self.name = f"{assignment.case.name}, {assignment.contestant}: the {assignment.role}"
        self.pipe, theirs = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=run_side, args=(assignment, theirs), daemon=True)
        self.process.start()
        theirs.close()

    def answer(self) -> Any:
        """Return what the process has sent; a SideFailure if it has ended instead."""
        try:
            return self.pipe.recv()
        except EOFError:
            self.process.join(EXIT_S_MAX)
            return SideFailure(f"the process ended with exit code {self.process.exitcode}\n")

    def end(self, wait_s: float) -> None:
        """Close the pipe; end the process if it does not end by itself."""
        self.pipe.close()
        self.process.join(wait_s)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


@contextmanager
def _sides(contestant: Contestant, case: Case, pinning: Pinning) -> Iterator[tuple[_Side, _Side]]:
    sides: list[_Side] = []
    wait_s = 0.0
    try:
        for producing, cpu in ((True, pinning.producer), (False, pinning.consumer)):
            sides.append(_Side(Assignment(producing, contestant, case, cpu)))
        yield sides[0], sides[1]
        wait_s = EXIT_S_MAX
    finally:
        for side in sides:
            side.end(wait_s)


def _answers(sides: Sequence[_Side], round_s: float) -> list[Any]:
    """Return the next answer of each side. Raises BenchError with every failure there is."""
    deadline = monotonic() + round_s + ANSWER_S_MAX
    waiting = {side.pipe: side for side in sides}
    answers: dict[_Side, Any] = {}
    failures: list[str] = []
    while waiting:
        ready = connection.wait(list(waiting), max(deadline - monotonic(), 0.0))
        if not ready:
            break
        for pipe in ready:
            assert isinstance(pipe, connection.Connection)
            side = waiting.pop(pipe)
            answer = answers[side] = side.answer()
            if isinstance(answer, SideFailure):
                failures.append(f"{side.name} failed:\n{answer.traceback}")
                deadline = monotonic() + SECOND_FAILURE_S  # the first heard need not be the cause
    if failures:
        raise BenchError("\n".join(failures))
    if waiting:
        names = " and ".join(side.name for side in waiting.values())
        raise BenchError(f"{names} did not answer within {round_s + ANSWER_S_MAX:.0f} s")
    return [answers[side] for side in sides]
