"""The files of the web page: complete, open to everyone, and without links to other sites."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp
import pytest
from hatchling.builders.wheel import WheelBuilder

from flinknet.cluster.coordinator.page.page_files import STATIC, PageFiles

ROOT = Path(__file__).parents[5]
NAMED = re.compile(r"""(?:from |href=|src=)"(/[^"]*)""")


async def test_everyone_gets_the_page(anybody: aiohttp.ClientSession) -> None:
    async with anybody.get("/") as response:
        assert (response.status, response.content_type) == (200, "text/html")
        assert await response.read() == (STATIC / "index.html").read_bytes()
        policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    ("name", "kind"),
    [("main.js", "javascript"), ("page.css", "text/css"), ("icon.svg", "image/svg+xml")],
)
async def test_a_file_comes_as_what_it_is(
    anybody: aiohttp.ClientSession, name: str, kind: str
) -> None:
    async with anybody.get(f"/page/{name}") as response:
        assert response.status == 200
        assert kind in response.content_type
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert await response.read() == (STATIC / name).read_bytes()


def test_what_the_files_name_is_there() -> None:
    served = {route.path for route in PageFiles().routes()}
    named = {
        found
        for path in STATIC.iterdir()
        if path.suffix in {".html", ".js"}
        for found in NAMED.findall(path.read_text(encoding="utf-8"))
    }
    assert "/page/graph.js" in named
    assert named <= served


def test_vendored_files_come_with_their_licence() -> None:
    text = (STATIC / "htm-preact.LICENSE.txt").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "The MIT License" in text


def test_the_wheel_has_them() -> None:
    files = WheelBuilder(str(ROOT)).recurse_included_files()
    included = {one.distribution_path for one in files}
    assert {
        f"flinknet/cluster/coordinator/page/static/{path.name}" for path in STATIC.iterdir()
    } <= (included)
