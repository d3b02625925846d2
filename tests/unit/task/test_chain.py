"""A chain: in which order its operators open, end and close, and what becomes of errors."""

from __future__ import annotations

from typing import Any

import pytest

from flinknet.task.chain import OperatorChain
from flinknet.task.context import RuntimeContext
from flinknet.task.graph import ChainedOperator, JobVertex
from flinknet.task.operators import Operator
from tests.unit.task.harness import context

DIARY: list[Any] = []
"""What happens to the operators of a chain, which has copies of those that it is given."""


class Noting(Operator):
    """Passes records on and notes what happens; fails to close if its name says so."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def open(self, context: RuntimeContext) -> None:
        DIARY.append(f"{self.name} opens as {context.operator_name}")
        context.metrics["opened"] = self.name
        context.committables.append(self.name)
        self.context = context

    async def process(self, records: list[Any]) -> None:
        DIARY.append((self.name, self.context.process_context.channel, records))
        await self._emit(records)

    async def end_of_input(self) -> None:
        DIARY.append(f"{self.name} ends")

    async def close(self) -> None:
        DIARY.append(f"{self.name} closes")
        if "broken" in self.name:
            raise OSError(self.name)


class Made:
    """A factory that can be copied."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self) -> Operator:
        return Noting(self._name)


def chain_of(*inputs: tuple[str, int | None]) -> OperatorChain:
    """A chain of operators, each with its name and the index of the one before it."""
    DIARY.clear()
    operators = tuple(
        ChainedOperator(name, f"uid of {name}", Made(name), input_) for name, input_ in inputs
    )
    return OperatorChain(JobVertex(0, "v", 1, 128, "default", operators), context(), {})


async def test_operators_open_from_the_end_and_end_from_the_start() -> None:
    chain = chain_of(("a", None), ("b", 0), ("c", 1))
    await chain.open()
    assert DIARY == ["c opens as c", "b opens as b", "a opens as a"]
    DIARY.clear()
    await chain.end_of_input()
    await chain.close()
    assert DIARY == ["a ends", "b ends", "c ends", "a closes", "b closes", "c closes"]
    await chain.close()
    assert len(DIARY) == 6, "once"


async def test_records_go_down_every_branch() -> None:
    chain = chain_of(("a", None), ("b", 0), ("c", 0))
    await chain.open()
    DIARY.clear()
    chain.set_channel(3)
    await chain.head.process([1, 2])
    assert DIARY == [("a", 3, [1, 2]), ("b", 3, [1, 2]), ("c", 3, [1, 2])]
    await chain.close()


async def test_each_operator_leaves_its_own_metrics_and_committables() -> None:
    chain = chain_of(("a", None), ("b", 0))
    await chain.open()
    assert chain.metrics() == {"a": {"opened": "a"}, "b": {"opened": "b"}}
    assert chain.committables() == {"uid of a": ["a"], "uid of b": ["b"]}
    await chain.close()


async def test_all_are_closed_before_the_first_error_is_raised() -> None:
    chain = chain_of(("a", None), ("broken b", 0), ("broken c", 1))
    await chain.open()
    DIARY.clear()
    with pytest.raises(OSError, match="broken b"):
        await chain.close()
    assert DIARY == ["a closes", "broken b closes", "broken c closes"]


async def test_an_error_of_closing_does_not_hide_why_the_chain_is_closed() -> None:
    chain = chain_of(("broken a", None))
    await chain.open()
    cause = ValueError("first")
    await chain.close(cause)
    assert cause.__notes__ == ["closing failed too: broken a"]


async def test_what_was_not_opened_is_not_closed() -> None:
    chain = chain_of(("a", None))
    await chain.close()
    assert DIARY == []
