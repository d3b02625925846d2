"""A worker's end of the pulse; ``tests/integration/test_slow_code.py`` tests it in a cluster."""

from __future__ import annotations

import asyncio
import logging
import sys

import pytest

from flinknet.cluster.worker import pulse_process
from flinknet.cluster.worker.pulse import Pulse
from flinknet.config import TlsConfig

WORKER = """
import sys, time
from flinknet.cluster.worker import pulse, pulse_process
from flinknet.config import TlsConfig
if sys.argv[2] == "zip":
    pulse_process.__file__ = "/nonexistent.zip/pulse_process.py"
one = pulse.Pulse(sys.argv[1], "worker-7", {"Authorization": "Bearer abc"}, 0.01, TlsConfig())
one.start()
one.close()
one.close()
sys.stdin.read()
"""


@pytest.mark.parametrize("installed", ["files", "zip"])
async def test_it_tells_the_coordinator_of_the_worker_with_its_token(installed: str) -> None:
    """This also holds for a package in an archive, from which no file can be run."""
    requests: asyncio.Queue[str] = asyncio.Queue()
    serving = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        requests.put_nowait((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1")
    host, port = server.sockets[0].getsockname()
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, f"{host}:{port}", installed, stdin=asyncio.subprocess.PIPE
    )
    lines = (await requests.get()).split("\r\n")
    assert lines[0] == "PUT /api/v1/workers/worker-7/pulse HTTP/1.1"
    assert f"Host: {host}:{port}" in lines
    assert "Authorization: Bearer abc" in lines
    assert lines[-2:] == ["", ""]
    await worker.communicate(b"")
    assert worker.returncode == 0
    server.close()
    for task in filter(None, serving):
        task.cancel()  # One may be about to read bytes that the worker no longer sends.
    await asyncio.gather(*filter(None, serving), return_exceptions=True)
    await server.wait_closed()


@pytest.mark.parametrize("why", ["no interpreter", "it fails"])
def test_a_worker_goes_on_without_it(
    why: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If no such process can be started, a warning tells the consequence."""
    if why == "no interpreter":
        monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    else:
        monkeypatch.setattr(pulse_process, "__file__", __file__)  # which knows no pytest there
    pulse = Pulse("127.0.0.1:1", "worker-0", {}, 1.0, TlsConfig())
    with caplog.at_level(logging.WARNING):
        pulse.start()
    pulse.close()
    assert "a blocked worker may be counted as lost" in caplog.text
    assert {"no interpreter": "/nonexistent/python", "it fails": "ModuleNotFoundError"}[
        why
    ] in caplog.text
