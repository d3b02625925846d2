"""Breadth-first search over all states of a world.

A world is two sides and the chunks on their way between them. Each side is a ``Machine``: the
effect of a step depends only on the side's state and the chunk received. So each step of a side
runs once, on the real objects, and its result is remembered. States of the world combine remembered
states. The search reports the first violation, which has the fewest steps, with the path to it.

Reduction: while a chunk waits for a side that can take a step, exploring that side's steps is
enough. The other side can only append behind that chunk, so its steps commute with all of them,
before and after (the steps form a persistent set in Godefroid's sense). The state space has no
cycles, so every state of each side is still reached, with every chunk that it can receive there.
Every violation belongs to a step of one side. This includes the balance of credit, which a step of
one side upsets in any state of the other. So the reduction misses none. ``test_exploration.py``
compares both searches.
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
    """A violation and the steps that lead to it, found after ``states`` states."""

    def __init__(self, message: str, states: int) -> None:
        super().__init__(message)
        self.states = states


class State(NamedTuple):
    """Numbers of the states of both sides, and the chunks between them."""

    producer: int
    consumer: int
    to_consumer: tuple[bytes, ...] = ()
    to_producer: tuple[bytes, ...] = ()


class Machine:
    """One side with a memory: its known states, and the result of each step in them."""

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
        """Return the number of the next state, and the bytes sent."""
        key = (number, step, chunk)
        done = self._moves.get(key)
        if done is None:
            side = self.side(number)
            sent = side.take(step, chunk)
            done = self._moves[key] = (self._number(side), sent)
        return done

    def side(self, number: int) -> Side:
        """Return a copy of the side in a state."""
        side: Side = pickle.loads(self._frozen[number])
        return side

    def moves(self) -> set[tuple[bytes, Step, bytes]]:
        """Return all steps taken, with digests in place of the numbers of states."""
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
    """Both sides, and the steps of their combinations."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.producer = Machine(ProducerSide(shape))
        self.consumer = Machine(ConsumerSide(shape))

    def moves(self) -> set[tuple[bytes, Step, bytes]]:
        """Return all steps that either side took."""
        return self.producer.moves() | self.consumer.moves()

    def next_steps(self, state: State, *, reduced: bool) -> list[tuple[Machine, Step]]:
        """Return the steps to explore from a state."""
        produce = [(self.producer, step) for step in self.producer.steps[state.producer]]
        consume = [(self.consumer, step) for step in self.consumer.steps[state.consumer]]
        if state.to_consumer and self.consumer.reads[state.consumer]:
            consume.append((self.consumer, RECEIVE))
        if state.to_producer and self.producer.reads[state.producer]:
            produce.append((self.producer, RECEIVE))
        # A chunk waits for this side, so its steps alone are enough (see the module's docstring).
        if reduced and consume and state.to_consumer:
            return consume
        if reduced and produce and state.to_producer:
            return produce
        return produce + consume

    def after(self, state: State, machine: Machine, step: Step) -> State:
        """Return the state after a step."""
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
        """Check that free announced buffers match the credit and data promised on each channel.

        Free announced buffers == credit in transit + credit at the producer + data in transit.
        """
        at_producer = self.producer.accounts[state.producer].credit
        at_consumer = self.consumer.accounts[state.consumer].credit
        for channel, (credit, free) in enumerate(zip(at_producer, at_consumer, strict=True)):
            # A side without a view of the credit proves nothing about the balance.
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
        """Check a state without steps: all channels have ended, and every buffer is back."""
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
    """The result of a search: the world, and the numbers of states, steps and final states."""

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
    """Visit every reachable state.

    Raises ViolationFoundError at the first violation, or if there are more than ``states_max``
    states.
    """
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
    """Return a side as bytes. Equal states nearly always give equal bytes."""
    side.scrub()
    return pickled(side, REDUCTIONS)


def pickled(value: Any, reductions: Mapping[type, Callable[[Any], Any]]) -> bytes:
    """Pickle a value with the given reductions."""
    target = io.BytesIO()
    pickler = pickle.Pickler(target, protocol=5)
    pickler.dispatch_table = reductions
    pickler.dump(value)
    return target.getvalue()


def _numbered(value: Any) -> tuple[Callable[[int], Any], tuple[int]]:
    """Refer to a constant by its number, which saves a fifth of the time."""
    number = _NUMBERS.setdefault((type(value), value), len(_CONSTANTS))
    if number == len(_CONSTANTS):
        _CONSTANTS.append(value)
    return _constant, (number,)


def _constant(number: int) -> Any:
    return _CONSTANTS[number]


_CONSTANTS: list[Any] = []
_NUMBERS: dict[tuple[type, Any], int] = {}
"""The index of each constant in the list."""


def _filled(content: bytes, size: int) -> memoryview:
    return memoryview(bytearray(content.ljust(size, b"\0")))


def _memoryview(view: memoryview) -> tuple[Callable[[bytes, int], memoryview], tuple[bytes, int]]:
    """Reduce a view without its zeros: between steps views are nearly always empty."""
    return _filled, (bytes(view).rstrip(b"\0"), len(view))


REDUCTIONS: dict[type, Callable[[Any], Any]] = {
    **copyreg.dispatch_table,
    memoryview: _memoryview,
    **dict.fromkeys((Shape, NetworkConfig, WireLimits, BufferDebloatConfig), _numbered),
    **dict.fromkeys((*Enum.__subclasses__(), *IntEnum.__subclasses__()), _numbered),
}
"""Reductions of the types that are not pickled in the usual way."""


@cache
def data_and_credit(chunk: bytes) -> Counter[int]:
    """Count data frames and credit of each channel in a chunk, decoded with a stock unpacker."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(chunk)
    count: Counter[int] = Counter()
    for message in unpacker:
        if not isinstance(message, list):
            continue  # a buffer's body, which follows its header
        if message[0] == MessageType.ADD_CREDIT:
            count[message[1]] += message[2]
        elif message[0] == MessageType.BUFFER_RESPONSE and message[4] in DATA_TYPES:
            count[message[1]] += 1
    return count


def _told(
    origin: dict[State, tuple[State, str] | None], state: State, label: str, violation: Exception
) -> ViolationFoundError:
    """Return an error that tells the steps to a violation."""
    path = [label]
    while (arrival := origin[state]) is not None:
        state, label = arrival
        path.append(label)
    kind = "" if isinstance(violation, BrokenInvariantError) else f"{type(violation).__name__}: "
    story = " -> ".join(reversed(path))
    return ViolationFoundError(f"{kind}{violation}\nafter: {story}", len(origin))
