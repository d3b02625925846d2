"""Links to tasks: their admission. `test_agent.py` tests their messages."""

from __future__ import annotations

import asyncio
import gc
import json
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from flinknet.cluster.launch.spark import task_links
from flinknet.cluster.launch.spark.agent import proof
from flinknet.cluster.launch.spark.task_links import TaskLink, TaskLinks
from flinknet.errors import ConfigurationError
from flinknet.net import pending_handshakes
from flinknet.net.tls import TlsFiles
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
async def test_a_connection_without_the_secret_is_refused(greeting: bytes) -> None:
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


def served(tls: TlsFiles | None = None) -> TaskLinks:
    """Return links that admit any task."""
    return TaskLinks(SECRET, lambda link: True, lambda *news: None, lambda link: None, tls)


@pytest.mark.parametrize("said", [b"", json.dumps(GREETING).encode() + b"\n"])
@pytest.mark.parametrize("secure", [False, True])
async def test_a_stranger_that_does_not_prove_the_secret_in_time_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secure: bool, said: bytes
) -> None:
    """With TLS this time includes the handshake, which a silent stranger never begins."""
    monkeypatch.setattr(task_links, "_PROOF_S", 0.2)
    tls = Authority(tmp_path).tls("launcher") if secure else None
    links = served(tls)
    host, port = await links.listen("127.0.0.1")
    context = tls.client() if tls is not None and said else None
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    writer.write(said)
    async with asyncio.timeout(5.0):
        await reader.read()
    writer.transport.abort()
    assert links.refusals.counts == {"slow" if said else "silent": 1}
    await links.close()


async def test_silent_strangers_make_room_for_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_links, "_UNPROVEN_MAX", 3)
    tls = Authority(tmp_path).tls("launcher")
    monkeypatch.setattr(task_links, "_PROOF_S", 600.0)
    monkeypatch.setattr(pending_handshakes, "_SPARED_SHARE", 0.0)
    links = served(tls)
    host, port = await links.listen("127.0.0.1")
    strangers = [await asyncio.open_connection(host, port) for _ in range(3)]
    reader, writer = await asyncio.open_connection(host, port, ssl=tls.client())
    writer.write(json.dumps(GREETING).encode() + b"\n")
    answer = json.loads(await reader.readline())
    assert answer["proof"] == proof(SECRET, "launcher", "abc")
    assert await strangers[0][0].read() == b"", "the oldest one has gone"
    assert links.refusals.counts == {"full": 1}
    for _, other in (*strangers, (reader, writer)):
        other.transport.abort()
    await links.close()


async def test_strangers_without_the_certificate_or_the_secret_are_counted_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ours, other = Authority(tmp_path / "ours"), Authority(tmp_path / "other")
    tls = ours.tls("launcher")
    links = served(tls)
    host, port = await links.listen("127.0.0.1")
    shown: list[ssl.SSLContext | None] = [None, other.tls("stranger").client(), tls.client()]
    for context in shown:
        if context is not None:
            context.load_verify_locations(ours.files("launcher")[2])
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        writer.write(json.dumps(GREETING).encode() + b'\n{"proof": "guessed"}\n')
        with suppress(OSError):  # with TLS, a read reports that the certificate was refused
            while await reader.read(1024):
                pass
        writer.transport.abort()
    assert links.refusals.counts == {"tls": 2, "secret": 1}
    (no_tls, no_secret) = caplog.messages
    assert "refused (tls): 127.0.0.1: it does not speak TLS 1.3" in no_tls
    assert "refused (secret): 127.0.0.1: it does not have the secret" in no_secret
    assert SECRET.decode() not in caplog.text
    assert "Traceback" not in caplog.text
    await links.close()


async def test_a_renewed_certificate_is_shown_to_tasks_that_come_later(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    links = served(authority.tls("launcher", reload_interval_s=0.0))
    task = authority.tls("worker-0")
    host, port = await links.listen("127.0.0.1")
    shown = []
    for _ in range(2):
        _, writer = await asyncio.open_connection(host, port, ssl=task.client())
        secured: ssl.SSLObject = writer.get_extra_info("ssl_object")
        shown.append(secured.getpeercert(binary_form=True))
        writer.transport.abort()
        authority.issue("launcher")
    assert shown[0] != shown[1]
    await links.close()


async def test_a_port_that_is_taken_is_refused_with_the_option() -> None:
    first, second = served(), served()
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
    link.command("end")  # for a task that is lost
    await links.close()
