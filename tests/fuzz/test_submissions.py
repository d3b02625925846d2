"""Damaged submissions: a coordinator accepts them, or refuses them with one kind of error."""

from __future__ import annotations

import copy
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import aiohttp
import msgpack
import pytest

from flinknet.cluster.control.credentials import authorization_headers
from flinknet.cluster.control.job_files import JobFile, pack_job, unpack_job
from flinknet.cluster.control.submission import Submission
from flinknet.config.restart_strategy import FixedDelayRestart
from flinknet.errors import ConfigurationError, FlinknetError
from tests.unit.cluster.control_plane import CONFIG, serve_control_plane
from tests.unit.cluster.coordinator.jobs.dispatched import CHECKPOINTING, Checkpointed
from tests.unit.cluster.graphs import keyed_graph

FILES = (JobFile("python", "a.py", "", b"X = 1"), JobFile("archive", "b.zip", "data", b"PK"))
JOB = pack_job(FILES, b"graph")
JOB_HEADER = len(JOB) - sum(len(file.content) for file in FILES) - len(b"graph")
BODY = replace(
    Submission.of_graph(
        replace(keyed_graph(), checkpointing=CHECKPOINTING, restart=FixedDelayRestart(3, 20.0))
    ),
    graph=JOB,
).to_bytes()
HEADER = 4 + int.from_bytes(BODY[:4], "big")
SHAPE = msgpack.unpackb(BODY[4:HEADER])
VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, 1.5, float("nan"), float("inf")),
    *("", "x", "\0", "é" * 100, b"\xff", [], {}, [[]], {"a": 1}),
)

Change = Callable[[random.Random], bytes]


def changed_bytes(chance: random.Random, data: bytes, size: int) -> bytes:
    """Return the data with some of its first bytes changed, removed or added."""
    raw = bytearray(data[:size])
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(raw))
        match chance.randrange(3):
            case 0:
                raw[at] = chance.randrange(256)
            case 1:
                del raw[at : at + chance.randrange(1, 5)]
            case _:
                raw[at:at] = chance.randbytes(chance.randrange(1, 4))
    if chance.random() < 0.1:
        return bytes(raw[: chance.randrange(len(raw))])
    return bytes(raw) + data[size:]


def places(node: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths to all values inside a value."""
    inside = enumerate(node) if isinstance(node, list) else ()
    for key, value in node.items() if isinstance(node, dict) else inside:
        yield (*at, key)
        yield from places(value, (*at, key))


def changed_shape(chance: random.Random) -> bytes:
    """Return a submission with values of its shape replaced, inserted or removed."""
    shape = copy.deepcopy(SHAPE)
    for _ in range(chance.choice((1, 1, 1, 2))):
        *way, last = chance.choice(list(places(shape)))
        node = shape
        for key in way:
            node = node[key]
        match chance.randrange(3):
            case 0:
                del node[last]
            case 1 if isinstance(node, list):
                node.insert(last, chance.choice(VALUES))
            case _:
                node[last] = chance.choice(VALUES)
    header: bytes = msgpack.packb(shape)
    return len(header).to_bytes(4, "big") + header + JOB


CHANGES: dict[str, Change] = {
    "bytes of the shape": lambda chance: changed_bytes(chance, BODY, HEADER),
    "values of the shape": changed_shape,
    "bytes of the files": lambda chance: BODY[:HEADER] + changed_bytes(chance, JOB, JOB_HEADER),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_damaged_submission_is_taken_or_refused(what: str) -> None:
    chance = random.Random(what)
    taken = 0
    for body in (BODY, *(CHANGES[what](chance) for _ in range(4_000))):
        cluster = Checkpointed()
        try:
            record = cluster.dispatcher.submit(Submission.from_bytes(body, 100_000), cluster.now)
        except FlinknetError:
            continue
        taken += 1
        cluster.pass_time(1.0)
        assert record.status(cluster.now)
        assert Submission.from_bytes(record.submission.to_bytes()).name == record.submission.name
    assert 1 < taken < 2_000, "neither is all refused, nor does damage go unnoticed"


def test_damaged_files_are_those_of_a_job_or_refused() -> None:
    chance = random.Random(8)
    for _ in range(5_000):
        damaged = changed_bytes(chance, JOB, JOB_HEADER)
        try:
            files, graph = unpack_job(damaged)
        except ConfigurationError:
            continue
        assert graph or not damaged
        assert sum(len(file.content) for file in files) <= len(damaged)


async def test_the_client_hears_what_is_wrong_and_the_log_does_not_fill(
    caplog: pytest.LogCaptureFixture,
) -> None:
    chance = random.Random(9)
    caplog.set_level(logging.INFO)
    async with serve_control_plane(CONFIG) as served:
        headers = authorization_headers(served.token)
        url = f"http://{served.address}/api/v1/jobs"
        async with aiohttp.ClientSession(headers=headers) as session:
            for change in list(CHANGES.values()) * 60:
                async with session.post(url, data=change(chance)) as response:
                    answer = await response.json()
                # Without workers no job fits, so an accepted body is refused, too.
                assert response.status in (400, 413), answer
                assert answer["error"]["message"]
    loud = [record for record in caplog.records if record.levelno > logging.INFO or record.exc_info]
    assert loud == []
