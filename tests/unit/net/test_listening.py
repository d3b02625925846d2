"""Listening sockets: many connections may wait while one is accepted per turn."""

from __future__ import annotations

import socket

from flinknet.net.listening import deepen_backlog


def test_more_connections_wait_than_the_socket_was_told_first() -> None:
    """All of these connections are established although none is accepted."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as server:
        deepen_backlog([server])
        waiting = [socket.create_connection(server.getsockname(), timeout=60) for _ in range(20)]
        for client in waiting:
            client.close()
        assert server.fileno() >= 0, "it was another descriptor of the socket that was closed"
        accepted, _ = server.accept()
        accepted.close()
