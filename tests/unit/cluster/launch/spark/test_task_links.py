"""Links to tasks: who is let in. What goes over them is in `test_agent.py`."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path

import pytest

from flinknet.cluster.launch.spark import task_links
from flinknet.cluster.launch.spark.agent import proof
from flinknet.cluster.launch.spark.task_links import TaskLink, TaskLinks
from flinknet.errors import ConfigurationError
from tests.certificates import Authority

SECRET = b"a secret"
GREETING = {"stage": 1, "rank": 0, "nonce": "abc"}


@pytest.mark.parametrize(
    "greeting",
    [
        b"",
        b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"[]\n",
        b'{"nonce": 1}\n{}\n',
        b'{"nonce": 1}\n5\n',
        b"[" * 100_000 + b"\n",
        json.dumps(GREETING).encode() + b'\n{"proof": ""}\n',
        json.dumps(GREETING).encode() + b'\n{"proof": "\xc3\xa4"}\n',
        b"x" * 2_000_000,
    ],
)
async def test_a_stranger_is_not_let_in(greeting: bytes) -> None:
    let_in: list[TaskLink] = []
    faults: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: faults.append(context))
    links = TaskLinks(SECRET, lambda link: True, lambda *news: None, let_in.append)
    host, port = await links.listen("127.0.0.1")
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(greeting)
        writer.write_eof()
        answer = await reader.read()
        assert SECRET not in answer
    except ConnectionError:
        pass  # It was not read to its end.
    finally:
        writer.transport.abort()
        await links.close()
    gc.collect()
    assert let_in == faults == [], "nor does it fill the log"


async def test_a_stranger_that_says_nothing_is_cut_off_before_tls_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_links, "_PROOF_S", 0.05)
    tls = Authority(tmp_path).tls("launcher")
    links = TaskLinks(SECRET, lambda link: True, lambda *news: None, lambda link: None, tls)
    host, port = await links.listen("127.0.0.1")
    reader, writer = await asyncio.open_connection(host, port)
    async with asyncio.timeout(5.0):
        assert await reader.read() == b""
    writer.close()
    await links.close()


async def test_a_port_that_is_taken_is_refused_with_the_option() -> None:
    first, second = (
        TaskLinks(SECRET, lambda link: True, lambda *news: None, lambda link: None)
        for _ in range(2)
    )
    host, port = await first.listen("127.0.0.1")
    with pytest.raises(ConfigurationError, match=f"port {port} of 127.0.0.1 .*spark.tasks_port"):
        await second.listen(host, port)
    await first.close()
    await second.close()


async def test_a_task_proves_the_secret_and_its_end_is_told() -> None:
    taken: asyncio.Queue[TaskLink] = asyncio.Queue()
    lost: asyncio.Queue[TaskLink] = asyncio.Queue()
    heard: asyncio.Queue[object] = asyncio.Queue()

    def take(link: TaskLink) -> bool:
        taken.put_nowait(link)
        return True

    links = TaskLinks(SECRET, take, lambda link, news: heard.put_nowait(news), lost.put_nowait)
    host, port = await links.listen("127.0.0.1")
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(json.dumps(GREETING).encode() + b"\n")
    answer = json.loads(await reader.readline())
    assert answer["proof"] == proof(SECRET, "launcher", "abc")
    shown = {"proof": proof(SECRET, "task", answer["nonce"]), "host": "there"}
    writer.write(json.dumps(shown).encode() + b'\n{"event": "said"}\n')
    link = await taken.get()
    assert (link.stage, link.rank, link.facts) == (1, 0, {"host": "there"})
    assert await heard.get() == {"event": "said"}
    link.command("start", worker="worker-0")
    assert json.loads(await reader.readline()) == {"do": "start", "worker": "worker-0"}
    writer.transport.abort()
    assert await lost.get() is link
    assert link.lost.is_set()
    link.command("end")  # to one that is lost
    await links.close()
