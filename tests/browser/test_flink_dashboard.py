"""Flink's own dashboard, from its distribution, shows a running job of flinknet.

The test serves the dashboard's files, and forwards its requests to the coordinator. It adds the
token, which the dashboard does not know, and the prefix ``/v1``, which Flink accepts, too.
"""

from __future__ import annotations

import mimetypes
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect
from yarl import URL

from bench.peers.flink.installation import install

pytestmark = [
    pytest.mark.flink,
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def dashboard() -> Iterator[zipfile.ZipFile]:
    """Yield the jar with the dashboard's files."""
    places = install().class_path.split(os.pathsep)
    jars = [jar for place in places for jar in Path(place).parent.glob("flink-dist-*.jar")]
    with zipfile.ZipFile(jars[0]) as jar:
        yield jar


class Front:
    """A proxy between the dashboard and the coordinator."""

    def __init__(self, dashboard: zipfile.ZipFile, token: str) -> None:
        self.refused: list[str] = []
        """Requests that the coordinator answered with an error."""
        self._dashboard = dashboard
        self._files = set(dashboard.namelist())
        self._token = token

    def handle(self, route: Route) -> None:
        url = URL(route.request.url)
        file = f"web/{url.path.lstrip('/') or 'index.html'}"
        if file in self._files:
            kind = mimetypes.guess_type(file)[0] or "application/octet-stream"
            route.fulfill(body=self._dashboard.read(file), content_type=kind)
            return
        headers = {**route.request.headers, "authorization": f"Bearer {self._token}"}
        answer = route.fetch(
            url=str(url.with_path(f"/v1{url.path}", keep_query=True)), headers=headers
        )
        if not answer.ok:
            self.refused.append(f"{answer.status} {url.path}")
        route.fulfill(response=answer)


def test_flinks_dashboard_shows_the_job(
    page: Page, address: str, dashboard: zipfile.ZipFile, tmp_path: Path
) -> None:
    place, _, token = address.partition("#token=")
    front = Front(dashboard, token)
    page.route("**/*", front.handle)
    page.goto(place)
    page.get_by_text("orders").first.click()
    for operator in ("Source: Numbers", "Parse", "Slow lookup", "Sink: Out"):
        expect(page.get_by_text(operator).first).to_be_visible()
    for tab in ("Overview", "Exceptions", "TimeLine", "Checkpoints", "Configuration"):
        expect(page.get_by_role("tab", name=tab)).to_be_visible()
    picture = tmp_path / "dashboard.png"
    page.screenshot(path=picture, full_page=True)
    assert picture.stat().st_size > 10_000
    page.get_by_role("tab", name="Checkpoints").click()
    expect(page.get_by_text("Checkpoint Counts").first).to_be_visible()
    page.goto("about:blank")  # before unrouting: later requests would lack the token
    page.unroute_all(behavior="ignoreErrors")
    assert front.refused == []
