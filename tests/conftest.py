"""Fixtures of every test: the event loop, and a check that the test leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import stat
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import settings
from pytest_asyncio import is_async_test

from flinknet.compiled_modules import IMPLEMENTATION, INTERPRETER, REASON
from tests.naming import ADDRESS

LOOP_FACTORIES: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
DEFAULT_LOOP = "uvloop"

UNIT = Path(__file__).with_name("unit")

SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for the JVMs of tests, for the reason given in ``flinknet/demo/spark_session.py``."""

GIVE_UP_S = 5.0
"""Seconds before pytest-timeout's limit at which a hanging asynchronous test is cancelled."""

TURNS_TO_CLOSE = 5
"""Loop turns that transports need to close, because they close in callbacks."""


os.environ.setdefault("SPARK_SUBMIT_OPTS", SHORT_LIVED_JVM)
os.environ.setdefault("SPARK_LAUNCHER_OPTS", SHORT_LIVED_JVM)

settings.register_profile("untimed", deadline=None)  # tests assert no times: machines are shared
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--loop",
        choices=[*LOOP_FACTORIES, "both"],
        default=DEFAULT_LOOP,
        help=f"event loop of asynchronous tests (default: {DEFAULT_LOOP})",
    )
    parser.addoption(
        "--seeds",
        type=int,
        help="number of seeds of each differential test in tests/fuzz (default: its fixed number)",
    )
    parser.addoption(
        "--first-seed",
        type=int,
        default=0,
        help="first seed of each differential test in tests/fuzz (default: 0)",
    )


def pytest_report_header() -> str:
    """Report which implementation runs, so that it is not mistaken for the other one."""
    because = f": {REASON}" if REASON else ""
    return f"flinknet: {IMPLEMENTATION}, {INTERPRETER}{because}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Arrange the tests, which are in random order, for several processes.

    Unit tests of one file run in one process: to hand out thousands of tests one by one costs more
    than some of them. They come last, because they are short; so no long test is the last one.

    Fail if a test's name contains an address, which differs between the processes.
    """
    changing = [item.nodeid for item in items if ADDRESS.search(item.nodeid)]
    if changing:
        named = "\n".join(changing)
        raise pytest.UsageError(f"name these with ids=tests.naming.spelled, not repr:\n{named}")
    places = {item: _place(item) for item in items}
    for item, place in places.items():
        if place is Place.UNIT:
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(UNIT).as_posix()))
    items.sort(key=places.__getitem__)


class Place(IntEnum):
    """Kinds of tests, in the order in which the processes begin them."""

    GROUP = 0
    """Tests in one process, because they share an expensive resource."""
    LONG = 1
    """Tests with a timeout of their own."""
    OTHER = 2
    UNIT = 3


def _place(item: pytest.Item) -> Place:
    if item.get_closest_marker("xdist_group") is not None:
        return Place.GROUP
    timeout = item.get_closest_marker("timeout")
    if timeout is not None and timeout.args:
        return Place.LONG
    return Place.UNIT if UNIT in item.path.parents else Place.OTHER


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    chosen: str = config.getoption("--loop")
    return LOOP_FACTORIES if chosen == "both" else {chosen: LOOP_FACTORIES[chosen]}


@pytest.fixture(scope="module", autouse=True)
def _only_new_objects_are_scanned() -> None:
    """Exempt objects that exist before a module's tests from garbage collection.

    A collection follows every test. Imported modules, and objects that earlier tests left for good,
    need not be scanned each time.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request: pytest.FixtureRequest) -> None:
    """Fail a test that leaves tasks pending, sockets open or child processes running.

    Set up before and torn down after all other fixtures of function scope. Objects that fixtures of
    a wider scope hold open do not count.
    """
    name = "_checked_loop" if is_async_test(request.node) else "_checked_process"
    request.getfixturevalue(name)


@pytest.fixture
def _checked_process(request: pytest.FixtureRequest) -> Iterator[None]:
    with _process_leaves_nothing_behind(request):
        yield


@pytest.fixture
async def _checked_loop(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    loop = asyncio.get_running_loop()
    giving_up = loop.call_later(_longest_s(request.node) - GIVE_UP_S, _cancel_all_but, before)
    with _process_leaves_nothing_behind(request):
        yield
        giving_up.cancel()
        for _ in range(TURNS_TO_CLOSE):
            await asyncio.sleep(0)
        pending = asyncio.all_tasks() - before - {asyncio.current_task()}
        assert not pending, f"tasks left pending: {sorted(map(repr, pending))}"


def _longest_s(test: pytest.Item) -> float:
    mark = test.get_closest_marker("timeout")
    ours = test.config.getini("timeout")
    return float(mark.args[0] if mark is not None and mark.args else ours)


def _cancel_all_but(spared: set[asyncio.Task[Any]]) -> None:
    """Cancel the tasks of a test that hangs, and print their stacks.

    pytest-timeout cannot do this: an event loop that waits treats its exception as the error of a
    callback.
    """
    for task in asyncio.all_tasks() - spared:
        task.print_stack()
        task.cancel("the test hangs")


@contextmanager
def _process_leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    sockets, children = _open_sockets(), _running_children()
    yield
    gc.collect()  # an unclosed socket, file or process warns when it is collected
    left = {pid: command for pid, command in _running_children().items() if pid not in children}
    assert not left, f"child processes left running: {left}"
    # Compare counts, because a loop may open another pair of sockets in each of its runs.
    opened = _open_sockets()
    if len(opened) > len(sockets) and request.node.get_closest_marker("spark") is None:
        raise AssertionError(f"sockets left open, of which: {_described(opened - sockets)}")


def _open_sockets() -> set[int]:
    """Return the descriptors of open sockets.

    Without /proc it finds none, and only the warnings about unclosed sockets are left.
    """
    found = set()
    for descriptor in map(int, _names_in("/proc/self/fd")):
        with suppress(OSError):  # the descriptor that scandir used is closed by now
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                found.add(descriptor)
    return found


def _names_in(folder: str) -> list[str]:
    """Return the names in a folder, by the fastest means: it runs before and after every test."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except FileNotFoundError:
        return []


def _described(descriptors: set[int]) -> list[str]:
    described = []
    for descriptor in sorted(descriptors):
        with socket.socket(fileno=os.dup(descriptor)) as duplicate:
            described.append(repr(duplicate))
    return described


def _children_of(thread: str) -> list[str]:
    try:
        return Path(f"/proc/self/task/{thread}/children").read_text().split()
    except OSError:  # the thread has just ended, or the kernel has no such file
        return []


def _running_children() -> dict[int, str]:
    """Return the command of each child that has not ended, by process id."""
    found = {}
    for thread in _names_in("/proc/self/task"):
        for pid in _children_of(thread):
            process = Path("/proc", pid)
            try:
                state = (process / "stat").read_text().rpartition(")")[2].split()[0]
                command = (process / "cmdline").read_text().replace("\0", " ").strip()
            except OSError:  # the child has just been reaped
                continue
            # Python keeps a resource tracker for a process that has used multiprocessing.
            if state not in "ZX" and "multiprocessing.resource_tracker" not in command:
                found[int(pid)] = command
    return found
