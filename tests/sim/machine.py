"""The machine of a simulation: it replaces ``flinknet.machine``, under the same names.

``run.py`` puts this module into ``sys.modules`` before the package is imported. All clocks show the
time of the simulated loop. Random numbers, tokens and identifiers come from one seeded generator.
Calls that cannot be simulated raise.

A thread is a real one, but only one thread runs at a time, in a determined order. A thread runs
until it waits in ``SimpleQueue.get``, ``Event.wait`` or ``Thread.join``; then the thread that had
let it run continues. When its condition holds, a thread is *ready*, and the loop lets it run in a
callback. If the loop's own thread waits, it lets ready threads run meanwhile, in the order in which
they became ready. If no thread is ready, the simulation is stuck and raises StuckError.
"""

from __future__ import annotations

import random
import sys
import threading
import time as real_time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from tests.sim.loop import SimLoop

__all__ = [
    "Condition",
    "Event",
    "Lock",
    "RLock",
    "Random",
    "SimpleQueue",
    "Socket",
    "Thread",
    "ThreadLocal",
    "active_threads",
    "address_towards",
    "all_threads",
    "choice",
    "clock_gettime",
    "current_thread",
    "listen",
    "main_thread",
    "monotonic",
    "monotonic_ns",
    "open_again",
    "perf_counter",
    "process_id",
    "process_time_ns",
    "random_bytes",
    "randrange",
    "sleep",
    "thread_id",
    "thread_time",
    "token_hex",
    "token_urlsafe",
    "uniform",
    "unique_id",
    "wall_time",
    "wall_time_ns",
]

BEGUN_AT = 1_750_000_000.0
"""The time of day at which a simulation begins."""

_NS = 1_000_000_000


class StuckError(Exception):
    """Nothing in the simulation can continue."""


class OutsideError(BaseException):
    """Code in the simulation called the real machine."""

    first: OutsideError | None = None
    """The first error, kept because a task or a job may catch it and continue."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        OutsideError.first = OutsideError.first or self


class _World:
    """The state of the simulation in this process."""

    def __init__(self) -> None:
        self.loop: SimLoop
        self.random = random.Random(0)
        self.ready: deque[Thread] = deque()
        self.running: Thread | None = None
        self.threads: dict[Thread, None] = {}

    def let_run(self) -> bool:
        """Let the first ready thread run until it waits; return False if no thread is ready."""
        if not self.ready:
            return False
        self.ready.popleft().run_on()
        return True

    def wait_until(self, is_over: Callable[[], bool], waiters: list[Thread]) -> None:
        """Let others run until a condition holds; ``waiters`` are woken when it may hold."""
        thread = _here.thread
        while not is_over():
            if thread is not None:
                waiters.append(thread)
                thread.pause()
            elif not self.let_run():
                raise StuckError("the event loop waits for a thread, and no thread can run")


class _Here(threading.local):
    thread: Thread | None = None


_here = _Here()
world = _World()


def begin(loop: SimLoop, seed: int) -> None:
    """Begin the simulation of this process on ``loop``."""
    world.loop = loop
    world.random.seed(seed)


# -- clocks ----------------------------------------------------------------------------------------


def monotonic() -> float:
    return world.loop.time() if hasattr(world, "loop") else 0.0


def monotonic_ns() -> int:
    return round(monotonic() * _NS)


perf_counter = monotonic


def wall_time() -> float:
    return BEGUN_AT + monotonic()


def wall_time_ns() -> int:
    return round(BEGUN_AT) * _NS + monotonic_ns()


def process_time_ns() -> int:
    """Return 0: computing takes no virtual time."""
    return 0


def thread_time() -> float:
    return 0.0


def clock_gettime(clock: int) -> float:
    return 0.0


def sleep(seconds: float) -> NoReturn:
    raise OutsideError("a thread sleeps")


# -- randomness ------------------------------------------------------------------------------------


def random_bytes(size: int) -> bytes:
    return world.random.randbytes(size)


def token_hex(size: int = 32) -> str:
    return random_bytes(size).hex()


token_urlsafe = token_hex


def unique_id() -> str:
    return random_bytes(16).hex()


def uniform(low: float, high: float) -> float:
    return world.random.uniform(low, high)


def randrange(*bounds: int) -> int:
    return world.random.randrange(*bounds)


def choice(values: Any) -> Any:
    return world.random.choice(values)


class Random(random.Random):
    """A generator that takes its seed from the simulation."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(world.random.random() if seed is None else seed)


def process_id() -> int:
    return 1


# -- threads ---------------------------------------------------------------------------------------

ThreadLocal = threading.local
# Real locks are safe: one thread runs at a time, and no thread waits while it holds one.
Lock = threading.Lock
RLock = threading.RLock
thread_id = threading.get_ident
current_thread = threading.current_thread
main_thread = threading.main_thread


class Thread:
    """A thread that runs when the simulation lets it."""

    native_id = 0

    def __init__(
        self,
        *,
        target: Callable[..., Any],
        args: tuple[Any, ...] = (),
        name: str = "",
        daemon: bool = False,
    ) -> None:
        self.name = name
        self._call = lambda: target(*args)
        self._turn = threading.Semaphore(0)
        self._paused = threading.Semaphore(0)
        self._joining: list[Thread] = []
        self._is_over = False
        self._error: BaseException | None = None
        self._real = threading.Thread(target=self._main, name=name, daemon=True)

    @property
    def ident(self) -> int | None:
        return self._real.ident

    def start(self) -> None:
        world.threads[self] = None
        self._real.start()
        self.get_ready()

    def join(self, timeout: float | None = None) -> None:
        world.wait_until(lambda: self._is_over, self._joining)

    def is_alive(self) -> bool:
        return not self._is_over

    def get_ready(self) -> None:
        """Schedule the thread."""
        world.ready.append(self)
        world.loop.call_soon(world.let_run)

    def run_on(self) -> None:
        """Run until the thread waits or ends, and raise its error. Called in the loop's thread."""
        self._turn.release()
        self._paused.acquire()
        if self._error is not None:
            raise self._error

    def pause(self) -> None:
        """Let the loop's thread continue, and wait for this thread's turn."""
        self._paused.release()
        self._turn.acquire()

    def _main(self) -> None:
        self._turn.acquire()
        _here.thread = self
        try:
            self._call()
        except BaseException as error:
            self._error = error
        finally:
            self._is_over = True
            world.threads.pop(self, None)
            _wake(self._joining)
            self._paused.release()


def _wake(waiting: list[Thread]) -> None:
    woken, waiting[:] = waiting[:], []
    for thread in woken:
        thread.get_ready()


def all_threads() -> list[Thread]:
    return list(world.threads)


def active_threads() -> int:
    return 1 + len(world.threads)


class SimpleQueue:
    """``queue.SimpleQueue`` on simulated threads."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiting: list[Thread] = []

    def __class_getitem__(cls, item: Any) -> type[SimpleQueue]:
        return cls

    def put(self, item: Any) -> None:
        self._items.append(item)
        _wake(self._waiting)

    def get(self) -> Any:
        world.wait_until(lambda: bool(self._items), self._waiting)
        return self._items.popleft()


class Event:
    """``threading.Event`` on simulated threads."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Thread] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        _wake(self._waiting)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if timeout is None:
            world.wait_until(lambda: self._is_set, self._waiting)
            return True
        until = monotonic() + timeout
        timer = world.loop.call_at(until, _wake, self._waiting)
        try:
            world.wait_until(lambda: self._is_set or monotonic() >= until, self._waiting)
        finally:
            timer.cancel()
        return self._is_set


class Condition:
    """A condition cannot be made, because simulated code waits for none."""

    def __init__(self) -> None:
        raise OutsideError("a condition is waited for")


# -- sockets ---------------------------------------------------------------------------------------


class Socket:
    """A socket cannot be made: only the loop has connections."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        raise OutsideError("a socket is opened")


def address_towards(host: str, port: int) -> NoReturn:
    raise OutsideError("a socket is opened")


def listen(host: str, port: int) -> NoReturn:
    raise OutsideError("a socket listens")


def open_again(opened: Any) -> Any:
    """Return the socket itself, because a simulated one needs no copy."""
    return opened


# -- the real machine ------------------------------------------------------------------------------

_CLOCKS = (
    *("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime"),
    *("time_ns", "monotonic_ns", "perf_counter_ns", "process_time_ns", "thread_time_ns"),
    "clock_gettime_ns",
)
_MAY_ASK = ("asyncio", "faulthandler", "logging", "threading")
"""Modules of the standard library that read clocks without any effect on their behaviour."""


def forbid_the_real_machine() -> None:
    """Make real clocks, sleeps and sockets raise for the rest of this process."""
    import socket

    for name in _CLOCKS:
        setattr(real_time, name, _refusing(f"time.{name}", getattr(real_time, name)))
    real_time.sleep = _refusing("time.sleep", None)
    socket.socket.__init__ = _refusing("socket.socket", None)  # type: ignore[method-assign]


def _refusing(name: str, real: Callable[..., Any] | None) -> Callable[..., Any]:
    def refuse(*arguments: Any, **options: Any) -> Any:
        # Only a direct call of these modules passes, not one by code that they call.
        module = sys._getframe(1).f_globals.get("__name__", "")
        if real is None or module.partition(".")[0] not in _MAY_ASK:
            raise OutsideError(f"{module} calls {name} in a simulation")
        return real(*arguments, **options)

    return refuse
