"""A switch between network namespaces that delays and loses frames, and has cables to pull.

It runs as a script in a namespace that has one end of each cable::

    python lan_switch.py PORT PORT ...

A line of JSON on its standard input sets the treatment of frames, and is answered by a line:
``{"delay_ms": 50, "loss": 0.01, "pulled": ["p2"]}``. The script ends when its standard input does.
"""

from __future__ import annotations

import heapq
import json
import random
import select
import socket
import sys
import time
from contextlib import suppress
from typing import Any

ETH_P_ALL = 3
PACKET_OUTGOING = 4
SO_RCVBUFFORCE = 33
FRAME_BYTES_MAX = 65_536
QUEUE_FRAMES_MAX = 20_000
"""The limit of the queue; further frames are dropped, as by a router."""


def main(names: list[str]) -> None:
    """Forward frames until standard input ends."""
    ports: dict[int, socket.socket] = {}
    port_of: dict[str, int] = {}
    for name in names:
        port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        port.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20)
        port.bind((name, 0))
        port.setblocking(False)
        ports[port.fileno()] = port
        port_of[name] = port.fileno()
    places: dict[bytes, int] = {}
    setting: dict[str, Any] = {"delay_ms": 0.0, "loss": 0.0, "pulled": []}
    waiting: list[tuple[float, int, int, bytes]] = []
    number = 0
    poll = select.poll()
    for descriptor in (0, *ports):
        poll.register(descriptor, select.POLLIN)

    def send(target: int, frame: bytes) -> None:
        with suppress(OSError):  # a full queue or an end that is down: the frame is lost
            ports[target].send(frame)

    print("ready", flush=True)
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, target, frame = heapq.heappop(waiting)
            send(target, frame)
        wait_ms = None if not waiting else max(0.0, (waiting[0][0] - now) * 1000)
        for descriptor, _ in poll.poll(wait_ms):
            if descriptor == 0:
                line = sys.stdin.readline()
                if not line:
                    return
                setting.update(json.loads(line))
                print("set", flush=True)
                continue
            pulled = {port_of[name] for name in setting["pulled"]}
            for _ in range(64):
                try:
                    frame, address = ports[descriptor].recvfrom(FRAME_BYTES_MAX)
                except BlockingIOError:
                    break
                # A packet socket also reports the frames that this process sends.
                if address[2] == PACKET_OUTGOING or descriptor in pulled:
                    continue
                # Learn the port of the source address, as a switch does; flood unknown
                # destinations.
                places[frame[6:12]] = descriptor
                known = places.get(frame[:6])
                targets = [known] if known is not None else [p for p in ports if p != descriptor]
                for target in targets:
                    if target in pulled or target == descriptor:
                        continue
                    if setting["loss"] and random.random() < setting["loss"]:
                        continue
                    if not setting["delay_ms"]:
                        send(target, frame)
                    elif len(waiting) < QUEUE_FRAMES_MAX:
                        number += 1
                        due = time.monotonic() + setting["delay_ms"] / 1000
                        heapq.heappush(waiting, (due, number, target, frame))


if __name__ == "__main__":
    main(sys.argv[1:])
