"""Breadth-first search over all states of a world.

A world is two sides and the chunks on their way between them. Each side is a machine of its own
(``Machine``): what a step does follows from the side's state and the chunk received, so every step
of a side is done once, on the real objects, and remembered; combining the sides is then a matter
of looking up. The first violation found is one with the fewest steps, and the path to it is told.

Reduction: while a chunk waits for a side that can do anything, its steps alone are enough. The
other side can only append behind that chunk, so its steps commute with all of them, before and
after (the steps form a persistent set in Godefroid's sense). Nothing ever goes in a circle, so
every state of each side, with every chunk it can receive there, is still reached; and as every
violation is one of a step of one side (the balance of credit, too, is upset by a step of one side
whatever the other is doing), none is missed. ``test_exploration.py`` compares both ways.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple

import msgpack

from flinknet.buffer.buffer import DataType
from flinknet.config import BufferDebloatConfig, NetworkConfig, WireLimits
from flinknet.errors import FlinknetError
from flinknet.wire.messages import MessageType
from tests.model.consumer_side import ConsumerSide
from tests.model.producer_side import ProducerSide
from tests.model.shape import BrokenInvariantError, Shape, Step
from tests.model.sides import RECEIVE, Account, Side

DATA_TYPES = (DataType.DATA_BUFFER, DataType.DATA_BUFFER_WITH_CLEAR_END)


class ViolationFoundError(AssertionError):
    """A violation, with the steps that lead to it, found after ``states`` states."""

    def __init__(self, message: str, states: int) -> None:
        super().__init__(message)
        self.states = states


class State(NamedTuple):
    """Numbers of the states of both sides, and the chunks on their way."""

    producer: int
    consumer: int
    to_consumer: tuple[bytes, ...] = ()
    to_producer: tuple[bytes, ...] = ()


class Machine:
    """One side, remembered: each state it was seen in, and what each step does there."""

    def __init__(self, side: Side) -> None:
        self.name = side.name
        self._frozen: list[bytes] = []
        self._digests: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._moves: dict[tuple[int, Step, bytes], tuple[int, bytes]] = {}
        self.steps: list[tuple[Step, ...]] = []
        self.reads: list[bool] = []
        self.accounts: list[Account] = []
        self.first = self._number(side)

    def move(self, number: int, step: Step, chunk: bytes = b"") -> tuple[int, bytes]:
        """Return the state reached and what was sent."""
        key = (number, step, chunk)
        done = self._moves.get(key)
        if done is None:
            side = self.side(number)
            sent = side.take(step, chunk)
            done = self._moves[key] = (self._number(side), sent)
        return done

    def side(self, number: int) -> Side:
        """Return the side as it is in a state."""
        side: Side = pickle.loads(self._frozen[number])
        return side

    def moves(self) -> set[tuple[bytes, Step, bytes]]:
        """Everything that was done, by what the states are instead of their numbers."""
        return {(self._digests[number], step, chunk) for number, step, chunk in self._moves}

    def _number(self, side: Side) -> int:
        frozen = freeze(side)
        digest = blake2b(frozen, digest_size=16).digest()
        number = self._numbers.get(digest)
        if number is None:
            number = self._numbers[digest] = len(self._frozen)
            self._frozen.append(frozen)
            self._digests.append(digest)
            self.steps.append(tuple(side.steps()))
            self.reads.append(side.reads)
            self.accounts.append(side.account())
        return number


class World:
    """Both sides and the search over their combinations."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.producer = Machine(ProducerSide(shape))
        self.consumer = Machine(ConsumerSide(shape))

    def moves(self) -> set[tuple[bytes, Step, bytes]]:
        """Everything that either side did."""
        return self.producer.moves() | self.consumer.moves()

    def next_steps(self, state: State, *, reduced: bool) -> list[tuple[Machine, Step]]:
        """Return the steps to explore from a state."""
        produce = [(self.producer, step) for step in self.producer.steps[state.producer]]
        consume = [(self.consumer, step) for step in self.consumer.steps[state.consumer]]
        if state.to_consumer and self.consumer.reads[state.consumer]:
            consume.append((self.consumer, RECEIVE))
        if state.to_producer and self.producer.reads[state.producer]:
            produce.append((self.producer, RECEIVE))
        if reduced and consume and state.to_consumer:
            return consume
        if reduced and produce and state.to_producer:
            return produce
        return produce + consume

    def after(self, state: State, machine: Machine, step: Step) -> State:
        """Take a step."""
        producer, consumer, to_consumer, to_producer = state
        if machine is self.producer:
            inbox = to_producer[0] if step == RECEIVE else b""
            producer, sent = machine.move(producer, step, inbox)
            to_producer = to_producer[1:] if step == RECEIVE else to_producer
            to_consumer = (*to_consumer, sent) if sent else to_consumer
        else:
            inbox = to_consumer[0] if step == RECEIVE else b""
            consumer, sent = machine.move(consumer, step, inbox)
            to_consumer = to_consumer[1:] if step == RECEIVE else to_consumer
            to_producer = (*to_producer, sent) if sent else to_producer
        return State(producer, consumer, to_consumer, to_producer)

    def check_credit(self, state: State) -> None:
        """Free and announced == credit on its way + credit at the producer + data on its way."""
        at_producer = self.producer.accounts[state.producer].credit
        at_consumer = self.consumer.accounts[state.consumer].credit
        for channel, (credit, free) in enumerate(zip(at_producer, at_consumer, strict=True)):
            if credit is None or free is None:
                continue
            promised = credit + sum(
                data_and_credit(chunk)[channel] for chunk in state.to_consumer + state.to_producer
            )
            if promised != free:
                raise BrokenInvariantError(
                    f"channel {channel}: {promised} credits for {free} free buffers"
                )

    def check_end(self, state: State) -> None:
        """Nothing can happen any more: it must be because all is done and everything is back."""
        sides = self.producer.side(state.producer), self.consumer.side(state.consumer)
        for side in sides:
            if len(side.ended()) < self.shape.channels:
                raise BrokenInvariantError(
                    f"deadlock: the {side.name} has ended channels {side.ended()}\n"
                    f"{sides[0].account().described}\n{sides[1].account().described}"
                )
        for side in sides:
            side.check_all_back()


@dataclass(frozen=True)
class Exploration:
    """What was seen: the world, and how many states it has, steps between them, and states in
    which everything is done."""

    world: World
    states: int
    steps: int
    ends: int


def explore(
    shape: Shape,
    states_max: int,
    *,
    reduced: bool = True,
    make_world: Callable[[Any], World] = World,
) -> Exploration:
    """Visit every reachable state. Raises ViolationFoundError at the first violation, or if there
    are too many."""
    world = make_world(shape)
    first = State(world.producer.first, world.consumer.first)
    origin: dict[State, tuple[State, str] | None] = {first: None}
    waiting = deque([first])
    steps_taken = ends = 0
    while waiting:
        state = waiting.popleft()
        steps = world.next_steps(state, reduced=reduced)
        if not steps:
            ends += 1
            try:
                world.check_end(state)
            except AssertionError as violation:
                raise _told(origin, state, "the end", violation) from violation
        for machine, step in steps:
            label = f"{machine.name} {step}"
            try:
                reached = world.after(state, machine, step)
                if reached not in origin:
                    world.check_credit(reached)
            except (AssertionError, FlinknetError) as violation:
                raise _told(origin, state, label, violation) from violation
            steps_taken += 1
            if reached not in origin:
                origin[reached] = (state, label)
                waiting.append(reached)
        if len(origin) > states_max:
            raise ViolationFoundError(f"more than {states_max} states", len(origin))
    return Exploration(world, len(origin), steps_taken, ends)


def freeze(side: Side) -> bytes:
    """Return a side as bytes; equal states give equal bytes nearly always."""
    side.scrub()
    return pickled(side, REDUCTIONS)


def pickled(value: Any, reductions: Mapping[type, Callable[[Any], Any]]) -> bytes:
    """Pickle a value, types of ``reductions`` as these say."""
    target = io.BytesIO()
    pickler = pickle.Pickler(target, protocol=5)
    pickler.dispatch_table = reductions
    pickler.dump(value)
    return target.getvalue()


def _numbered(value: Any) -> tuple[Callable[[int], Any], tuple[int]]:
    """What never changes is only referred to, which saves a fifth of the time."""
    number = _NUMBERS.setdefault((type(value), value), len(_CONSTANTS))
    if number == len(_CONSTANTS):
        _CONSTANTS.append(value)
    return _constant, (number,)


def _constant(number: int) -> Any:
    return _CONSTANTS[number]


_CONSTANTS: list[Any] = []
_NUMBERS: dict[tuple[type, Any], int] = {}
"""Of each constant, where it stands in the list."""


def _filled(content: bytes, size: int) -> memoryview:
    return memoryview(bytearray(content.ljust(size, b"\0")))


def _memoryview(view: memoryview) -> tuple[Callable[[bytes, int], memoryview], tuple[bytes, int]]:
    """Between steps the only views are receive buffers, nearly always empty."""
    return _filled, (bytes(view).rstrip(b"\0"), len(view))


REDUCTIONS: dict[type, Callable[[Any], Any]] = {
    **copyreg.dispatch_table,
    memoryview: _memoryview,
    **dict.fromkeys((Shape, NetworkConfig, WireLimits, BufferDebloatConfig), _numbered),
    **dict.fromkeys((*Enum.__subclasses__(), *IntEnum.__subclasses__()), _numbered),
}
"""How each type is turned into bytes, where that is not as ever."""


@cache
def data_and_credit(chunk: bytes) -> Counter[int]:
    """Count data frames and credit of each channel in a chunk, read with a plain unpacker."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(chunk)
    count: Counter[int] = Counter()
    for message in unpacker:
        if not isinstance(message, list):
            continue  # the body of the buffer whose header came before
        if message[0] == MessageType.ADD_CREDIT:
            count[message[1]] += message[2]
        elif message[0] == MessageType.BUFFER_RESPONSE and message[4] in DATA_TYPES:
            count[message[1]] += 1
    return count


def _told(
    origin: dict[State, tuple[State, str] | None], state: State, label: str, violation: Exception
) -> ViolationFoundError:
    """Make the error that tells how it came to the violation."""
    path = [label]
    while (arrival := origin[state]) is not None:
        state, label = arrival
        path.append(label)
    kind = "" if isinstance(violation, BrokenInvariantError) else f"{type(violation).__name__}: "
    story = " -> ".join(reversed(path))
    return ViolationFoundError(f"{kind}{violation}\nafter: {story}", len(origin))
