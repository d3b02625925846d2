"""A kernel's report whether a peer's machine is reachable."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator

import pytest

from flinknet.net.acknowledgements import Acknowledgements, unacknowledged_s
from tests.unit.net.deaf_socket import cut

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")

LONG_S = 0.5

_DETACH_FILTER = 27


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        with near, far:
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield near, far


def until_long(near: socket.socket) -> None:
    while unacknowledged_s(near) < LONG_S:
        time.sleep(0.01)


def test_a_peer_that_is_cut_off_acknowledges_nothing(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, far = pair
    near.send(b"before")
    assert far.recv(6) == b"before"
    cut(far)
    assert unacknowledged_s(near) == 0.0
    near.send(b"behind")
    until_long(near)


def test_of_a_cut_in_one_direction_that_side_is_told_which_hears_nothing(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, far = pair
    cut(far)
    near.send(b"lost")
    time.sleep(LONG_S)
    far.send(b"heard")
    assert near.recv(5) == b"heard"
    assert unacknowledged_s(near) < LONG_S
    until_long(far)


def test_a_peer_that_does_not_read_is_there(pair: tuple[socket.socket, socket.socket]) -> None:
    """Its window is closed, and its kernel answers each probe."""
    near, _ = pair
    near.setblocking(False)
    with pytest.raises(BlockingIOError):
        while near.send(bytes(65_536)):
            pass
    end = time.monotonic() + 2 * LONG_S
    while time.monotonic() < end:
        assert unacknowledged_s(near) < LONG_S
        time.sleep(0.05)


def test_data_just_sent_does_not_count_against_an_idle_peer(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """Both processes may have been held up, and the network has a delay."""
    near, far = pair
    looked_at = Acknowledgements()
    near.send(b"before")
    assert far.recv(6) == b"before"
    time.sleep(LONG_S)
    cut(far)
    near.send(b"behind")
    assert unacknowledged_s(near) >= LONG_S
    assert looked_at.silent_s(near, time.monotonic()) == 0.0
    assert looked_at.silent_s(near, time.monotonic()) >= LONG_S, "it was due before, too"


def test_acknowledgements_since_the_last_check_count(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    near, far = pair
    looked_at = Acknowledgements()
    cut(far)
    near.send(b"first")
    while not unacknowledged_s(near):
        time.sleep(0.001)
    assert looked_at.silent_s(near, time.monotonic()) == 0.0
    far.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
    assert far.recv(5) == b"first"
    time.sleep(LONG_S)
    cut(far)
    near.send(b"second")
    assert unacknowledged_s(near) >= LONG_S
    assert looked_at.silent_s(near, time.monotonic()) == 0.0


def test_a_socket_without_acknowledgements_reports_nothing() -> None:
    assert unacknowledged_s(None) == 0.0
    with socket.socket(socket.AF_UNIX) as other:
        assert unacknowledged_s(other) == 0.0
    with socket.socket() as closed:
        os.close(closed.detach())
        assert unacknowledged_s(closed) == 0.0
