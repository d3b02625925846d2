"""Permissions on the control plane, and the form of a refusal."""

from __future__ import annotations

import aiohttp
import pytest
from yarl import URL

from flinknet.cluster.control.credentials import authorization_headers, new_token
from flinknet.cluster.control.messages import Register
from flinknet.cluster.control.submission import Submission
from flinknet.errors import ConfigurationError
from flinknet.texts import printable
from tests.unit.cluster.control_plane import ServedCoordinator, get
from tests.unit.cluster.graphs import keyed_graph

GUARDED = [
    ("GET", "/api/v1/overview"),
    ("GET", "/api/v1/workers"),
    ("GET", "/api/v1/jobs"),
    ("GET", "/api/v1/jobs/x"),
    ("GET", "/api/v1/jobs/x/attempts"),
    ("GET", "/api/v1/no/such/thing"),
    ("GET", "/api/v1/page"),
    ("POST", "/api/v1/jobs"),
    ("POST", "/api/v1/jobs/x/cancel"),
    ("GET", "/api/v1/jobs/x/result"),
    ("GET", "/api/v1/worker"),
    ("GET", "/api/v1/jobs/x/attempts/0/deployment/worker-0"),
    ("GET", "/api/v1/jobs/x/attempts/0/committables"),
    ("PUT", "/api/v1/jobs/x/attempts/0/subtasks/0/0/result"),
]


@pytest.mark.parametrize(("method", "path"), GUARDED)
@pytest.mark.parametrize("headers", [{}, authorization_headers(new_token())], ids=["none", "wrong"])
async def test_without_the_token_nothing_can_be_done(
    anybody: aiohttp.ClientSession, method: str, path: str, headers: dict[str, str]
) -> None:
    async with anybody.request(method, path, headers=headers) as response:
        assert response.status == 401
        error = (await response.json())["error"]
    assert "token" in error["message"]


async def test_a_worker_without_the_token_is_turned_away(served: ServedCoordinator) -> None:
    async with served.link(new_token()) as link:
        with pytest.raises(ConfigurationError, match=r"refused.*401.*cluster token"):
            await link.register(Register("worker-0", 1, "127.0.0.1:1", 1))
    assert served.coordinator.dispatcher.workers.workers() == ()


async def test_a_client_without_the_token_is_turned_away(served: ServedCoordinator) -> None:
    client = served.client(new_token())
    with pytest.raises(ConfigurationError, match="token"):
        await client.submit(Submission.of_graph(keyed_graph()))
    assert served.coordinator.dispatcher.jobs() == ()


async def test_an_unknown_path_is_404_in_json(member: aiohttp.ClientSession) -> None:
    for path in ("/api/v1/jobs/x", "/no/such/page"):
        status, body = await get(member, path)
        assert status == 404
        assert set(body["error"]) == {"type", "message"}


async def test_under_v1_a_refusal_has_flinks_shape(
    anybody: aiohttp.ClientSession, member: aiohttp.ClientSession
) -> None:
    for path in ("/v1/jobs/x", "/v1/no/such/page"):
        status, body = await get(member, path)
        assert (status, list(body)) == (404, ["errors"])
        status, body = await get(anybody, path)
        assert (status, body) == (401, {"errors": ["the cluster token is missing or wrong"]})


async def test_a_path_that_is_no_text_is_404_too(served: ServedCoordinator) -> None:
    url = URL(f"http://{served.address}/api/v1/jobs/%ED%A0%80%1B", encoded=True)
    headers = authorization_headers(served.token)
    async with aiohttp.ClientSession(headers=headers) as session, session.get(url) as response:
        status, body = response.status, await response.json()
    assert status == 404
    assert body["error"]["message"] == printable(body["error"]["message"])
