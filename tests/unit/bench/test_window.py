"""The relay of the family ``window``, and results for a link and a window."""

from __future__ import annotations

import pickle
import socket
from io import StringIO
from pathlib import Path
from threading import Thread
from time import perf_counter

import pytest
from rich.console import Console

from bench.harness.pinning import Pinning
from bench.harness.row import Row, median_row
from bench.harness.system import Contestant
from bench.harness.trial import Plan
from bench.window.family import WindowFamily, share_of_link, share_of_most, share_of_product
from bench.window.link import measure_over_link
from bench.window.relay import measure_round_trip, open_relay
from bench.window.system import CASES, DELAYS_S, LINK, SYSTEM, WINDOWS, window_bytes

DATA = bytes(range(256)) * 4096


def receive_all(connection: socket.socket) -> bytes:
    received = b""
    while data := connection.recv(1 << 16):
        received += data
    return received


def test_a_relay_passes_everything_on_in_order_in_both_directions_and_then_the_end() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        with open_relay(target, 0.001) as address:
            near = socket.create_connection(("127.0.0.1", int(address.partition(":")[2])))
            far, _ = listener.accept()
            with near, far:
                for source, sink in ((near, far), (far, near)):
                    sender = Thread(target=source.sendall, args=(DATA,))
                    sender.start()
                    received = b""
                    while len(received) < len(DATA):
                        received += sink.recv(1 << 16)
                    sender.join()
                    assert received == DATA
                near.shutdown(socket.SHUT_WR)
                assert receive_all(far) == b""
                far.shutdown(socket.SHUT_WR)
                assert receive_all(near) == b""


def test_nothing_arrives_before_its_time() -> None:
    begun = perf_counter()
    round_trip_s = measure_round_trip(0.003)
    assert 0.006 <= round_trip_s <= perf_counter() - begun


def test_a_connection_that_is_cut_ends_on_the_other_side() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = f"127.0.0.1:{listener.getsockname()[1]}"
        with open_relay(target, 0.0) as address:
            near = socket.create_connection(("127.0.0.1", int(address.partition(":")[2])))
            far, _ = listener.accept()
            near.close()
            with far:
                assert receive_all(far) == b""


@pytest.mark.parametrize("contestant", [Contestant(SYSTEM, "2 + 8"), Contestant(LINK, "bytes")])
def test_a_run_goes_through_the_relay(contestant: Contestant) -> None:
    plan = Plan(runs=1, seconds=0.1, warm_up_s=0.0)
    measurement = measure_over_link(0.002, contestant, CASES[0], plan, Pinning(None, None))
    assert measurement.verified
    assert measurement.observations["round_trip_ms"] >= 4.0


def test_windows_are_what_their_names_say() -> None:
    assert window_bytes(WINDOWS["2 + 8"]) == 10 * 32 * 1024
    assert window_bytes(WINDOWS["2 + 126"]) == window_bytes(WINDOWS["120 + 8"])
    assert pickle.loads(pickle.dumps(SYSTEM)).variants == tuple(WINDOWS)
    assert [case.name for case in CASES] == list(DELAYS_S)


def row(system: str, variant: str, megabytes_per_s: float) -> Row:
    return median_row(
        "window",
        "rtt-20ms",
        (system, variant, "1"),
        [megabytes_per_s * 10],
        [1.0],
        1e5,
        verified=True,
        parameters={"round_trip_ms": 20.0},
    )


ROWS = [
    row("flinknet", "2 + 8", 8.192),
    row("flinknet", "504 + 8", 250.0),
    row(LINK.name, "bytes", 500.0),
]


def test_shares_are_those_of_the_link_of_the_same_case() -> None:
    small, large, link = ROWS
    assert share_of_link(ROWS, large) == pytest.approx(0.5)
    assert share_of_product(ROWS, small) == pytest.approx(327_680 / 10e6)
    assert share_of_product(ROWS, large) == pytest.approx(16_777_216 / 10e6)
    assert share_of_most(ROWS, small) == pytest.approx(0.5, rel=1e-3)
    assert share_of_most(ROWS, large) == pytest.approx(0.5)
    assert share_of_link(ROWS, link) is share_of_product(ROWS, link) is None
    assert share_of_link(ROWS[:2], large) is None


def test_the_table_shows_megabytes_and_shares() -> None:
    printed = StringIO()
    WindowFamily().print(ROWS, Console(file=printed, width=120))
    lines = [line for line in printed.getvalue().splitlines() if " yes" in line]
    assert lines[1].split()[-8:] == ["250", "250", "250", "16,384", "1.68", "0.5", "0.5", "yes"]
    assert "the link itself" in lines[2]


def test_rows_are_drawn_with_the_link_and_without(tmp_path: Path) -> None:
    for rows in (ROWS, ROWS[:2]):
        WindowFamily().draw(rows, tmp_path / "figure.png")
        assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
