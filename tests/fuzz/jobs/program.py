"""A random job as data: settings and steps, which print as a readable program.

The builder, the interpreter and the shrinker depend on this data alone. The builder makes a job of
it, the interpreter computes the job's output, and the shrinker cuts steps from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

__all__ = ["Change", "Input", "Order", "Program", "Step", "Trouble"]

Order = Literal["total", "key", "none"]
"""How far a stream's order is determined: in all, for the records of one key, or not at all."""


@dataclass(frozen=True)
class Change:
    """The change of one record: ``n * times + plus``, and new values of the given fields."""

    times: int = 1
    plus: int = 0
    payload: int | None = None
    """Added to ``n`` it is the index of the new payload; None keeps the old one."""
    bare: bool = False
    """Whether the payload becomes None."""
    keys: int | None = None
    """``n`` modulo this is the index of the new key; None keeps the old one."""
    shape: str | None = None
    """The new shape; None keeps the old one."""


@dataclass(frozen=True)
class Input:
    """An input of a step: the output or side output of another step, through an exchange."""

    step: int
    exchange: str = "default"
    side: bool = False

    def __str__(self) -> str:
        side = ".side" if self.side else ""
        exchange = "" if self.exchange == "default" else f".{self.exchange}()"
        return f"s{self.step}{side}{exchange}"


@dataclass(frozen=True)
class Trouble:
    """The trouble of a function, made once in the whole job, at the ``call``-th call."""

    kind: Literal["raise", "kill", "sleep"]
    call: int


@dataclass(frozen=True)
class Step:
    """A source, an operator, or a sink."""

    number: int
    kind: str
    inputs: tuple[Input, ...] = ()
    parallelism: int = 1
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the step's kind."""
    manner: str = "polite"
    """The treatment of arguments and results (``conduct.py``)."""
    form: str = "class"
    """The form of the function: a class, a plain function, a coroutine, a generator ..."""
    trouble: Trouble | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    """Chaining, slot sharing group, buffer timeout: settings that do not change the result."""
    order: Order = "none"
    timed: bool = False
    """Whether its records have timestamps, none of which is late."""
    stamped: bool = False
    """Whether its records may have timestamps, in any order."""

    def agrees_with(self, other: Step) -> bool:
        """Return whether both steps agree about event time."""
        return (self.timed, self.stamped) == (other.timed, other.stamped)

    def with_trouble(self, trouble: Trouble) -> Step:
        """Return the step with a function that makes trouble."""
        return replace(self, trouble=trouble)

    def __str__(self) -> str:
        words = [f"{name}={value!r}" for name, value in self.options.items()]
        words += [] if self.form == "class" else [f"form={self.form!r}"]
        words += [] if self.manner == "polite" else [f"manner={self.manner!r}"]
        words += [] if self.trouble is None else [f"{self.trouble}"]
        words += [f"{name}={value!r}" for name, value in self.settings.items()]
        read = " + ".join(map(str, self.inputs))
        order = {"total": "in order", "key": "in order per key", "none": "in any order"}[self.order]
        timed = ", timed" if self.timed else ""
        return (
            f"s{self.number} = {read + ' -> ' if read else ''}{self.kind}({', '.join(words)})"
            f"  # parallelism {self.parallelism}, {order}{timed}"
        )


@dataclass(frozen=True)
class Program:
    """One random job."""

    seed: int
    steps: tuple[Step, ...]
    settings: dict[str, Any]
    """Settings of the environment and its checkpoints."""
    cluster: str
    """The kind of cluster that it runs on (``clusters.py``)."""
    keys: str
    """The pool of its keys."""
    stop: bool = False
    """Whether it is stopped with a savepoint and continued from that."""
    rescale: bool = False
    """Whether it continues at another parallelism."""

    @property
    def fails(self) -> bool:
        """Whether a function fails or kills its worker."""
        return any(step.trouble and step.trouble.kind != "sleep" for step in self.steps)

    @property
    def kills(self) -> bool:
        """Whether a function kills its worker."""
        return any(step.trouble and step.trouble.kind == "kill" for step in self.steps)

    def rescaled(self) -> Program:
        """Return the program at another parallelism: equal ones stay equal, and 1 stays 1."""
        other = {1: 1, 2: 3, 3: 4, 4: 2}
        steps = tuple(replace(step, parallelism=other[step.parallelism]) for step in self.steps)
        return replace(self, steps=steps)

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        stop = ""
        if self.stop:
            stop = "stopped with a savepoint, and continued"
            stop += " at another parallelism" if self.rescale else ""
        lines = [
            f"seed {self.seed}, cluster {self.cluster!r}, keys {self.keys!r}",
            f"environment({settings})",
            *map(str, self.steps),
            *([stop] if stop else []),
        ]
        return "\n".join(lines)
