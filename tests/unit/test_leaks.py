"""The check in ``tests/conftest.py`` fails tests that leave something behind, and only those."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LEAVING = """
import asyncio, socket, subprocess, sys
import pytest

kept = []

async def serve(reader, writer):
    writer.close()

@pytest.fixture(scope="module", autouse=True)
def _end():
    yield
    for left in kept:
        if isinstance(left, subprocess.Popen):
            left.kill()
            left.wait()
        elif isinstance(left, socket.socket):
            left.close()

async def test_leaves_a_task():
    kept.append(asyncio.ensure_future(asyncio.sleep(3600)))

async def test_leaves_a_server():
    kept.append(await asyncio.start_server(serve, "127.0.0.1", 0))

async def test_leaves_a_connection():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    kept.append(await asyncio.open_connection(*server.sockets[0].getsockname()))
    server.close()
    await server.wait_closed()

def test_leaves_a_socket():
    kept.append(socket.socket())

def test_drops_a_socket():
    socket.socket()

def test_leaves_a_process():
    kept.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
"""

CLEAN = """
import asyncio, socket, subprocess, sys
import pytest

@pytest.fixture(scope="module")
def process():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()

@pytest.fixture
async def task():
    task = asyncio.create_task(asyncio.sleep(3600))
    yield task
    task.cancel()

@pytest.fixture
def opened():
    with socket.socket() as opened:
        yield opened

def test_uses_a_wider_fixture(process):
    assert process.poll() is None

async def test_runs_on_the_chosen_loop(pytestconfig):
    loop = asyncio.get_running_loop()
    assert type(loop).__module__.startswith(pytestconfig.getoption("--loop"))

async def test_uses_fixtures(task, opened):
    await asyncio.sleep(0)

async def test_closes_a_connection():
    async def serve(reader, writer):
        writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    assert await reader.read() == b""
    writer.close()
    server.close()
    await server.wait_closed()

async def test_ends_a_process():
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "")
    assert await process.wait() == 0

@pytest.mark.spark
def test_may_keep_a_connection_to_the_jvm(request):
    kept = socket.socket()
    request.getfixturevalue("module_end").append(kept)

@pytest.fixture(scope="module")
def module_end():
    kept = []
    yield kept
    for left in kept:
        left.close()
"""


def outcomes(folder: Path, tests: str, *options: str) -> dict[str, set[str]]:
    """Run ``tests`` under the project's configuration; return the outcomes of each test's
    phases."""
    path = folder / "test_inner.py"
    path.write_text(tests)
    configuration = [
        "-c",
        str(ROOT / "pyproject.toml"),
        f"--rootdir={ROOT}",
        "-p",
        "tests.conftest",
    ]
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-rA",
            "-p",
            "no:cacheprovider",
            *configuration,
            *options,
            path,
        ],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    found: dict[str, set[str]] = {}
    for outcome, name in re.findall(
        r"^(PASSED|FAILED|ERROR) \S*::(\w+)", ended.stdout, re.MULTILINE
    ):
        found.setdefault(name, set()).add(outcome)
    assert len(found) == tests.count("def test_"), ended.stdout
    return found


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_leaked_resources_fail_a_test(tmp_path: Path, loop: str) -> None:
    found = outcomes(tmp_path, LEAVING, "--loop", loop)
    harmless = [name for name, phases in found.items() if phases == {"PASSED"}]
    assert not harmless


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_closed_resources_pass(tmp_path: Path, loop: str) -> None:
    found = outcomes(tmp_path, CLEAN, "--loop", loop)
    assert {name for name, phases in found.items() if phases != {"PASSED"}} == set()
