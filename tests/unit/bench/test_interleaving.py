"""Runs of several systems take turns."""

from __future__ import annotations

from functools import partial

from bench.harness.interleaving import interleave


class Heard:
    """Progress that is recorded."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def expect(self, runs: int) -> None: ...

    def begin(self, run: str) -> None:
        self.lines.append(run)

    def end(self) -> None:
        self.lines.append("end")


def test_every_trial_has_its_turn_before_any_has_a_second_one() -> None:
    order: list[str] = []

    def trial(name: str) -> int:
        order.append(name)
        return len(order)

    heard = Heard()
    results = interleave({name: partial(trial, name) for name in "abc"}, 2, heard)
    assert order == list("abcabc")
    assert results == {"a": [1, 4], "b": [2, 5], "c": [3, 6]}
    assert heard.lines[:3] == ["a, run 1 of 2", "end", "b, run 1 of 2"]
    assert len(heard.lines) == 12
