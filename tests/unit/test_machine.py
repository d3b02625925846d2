"""The module for access to the machine only forwards calls, and no other module bypasses it."""

from __future__ import annotations

import ast
import os
import threading
import time
from pathlib import Path

import pytest

from flinknet import machine

PACKAGE = Path(machine.__file__).parent


def test_a_call_costs_what_one_of_the_standard_library_does() -> None:
    assert machine.monotonic is time.monotonic
    assert machine.wall_time_ns is time.time_ns
    assert machine.random_bytes is os.urandom
    assert machine.process_id is os.getpid
    assert machine.Thread is threading.Thread


def test_ids_differ() -> None:
    ids = {machine.unique_id() for _ in range(100)}
    assert len(ids) == 100
    assert {len(one) for one in ids} == {32}


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_socket_listens_and_is_opened_again(host: str) -> None:
    try:
        listening = machine.listen(host, 0)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with listening, machine.open_again(listening) as same:
        assert same.getsockname() == listening.getsockname()
        assert same.fileno() != listening.fileno()


def test_no_other_module_asks_the_system_for_randomness() -> None:
    """Import contracts cover whole modules; this is a function of a module that every other one
    needs."""
    round_it = [
        path.relative_to(PACKAGE).as_posix()
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "machine.py" or path.parent != PACKAGE
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute | ast.alias)
        and (node.attr if isinstance(node, ast.Attribute) else node.name)
        in {"urandom", "getrandom"}
    ]
    assert round_it == []


def test_an_inherited_socket_listens_and_is_not_passed_on() -> None:
    with machine.listen("127.0.0.1", 0) as listening:
        descriptor = os.dup(listening.fileno())
        os.set_inheritable(descriptor, True)
        with machine.take_over(descriptor) as same:
            assert same.getsockname() == listening.getsockname()
            assert not os.get_inheritable(same.fileno())
