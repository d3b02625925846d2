"""A browser, the page of a running job, and a check for errors on its console.

All tests are in one module and share its browser. A browser of session scope would leave its event
loop running in the thread of other tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).parents[2]
SLOW_JOB = Path(__file__).with_name("slow_job.py")
PAGE = re.compile(r"^page: (http://\S+)", re.MULTILINE)
TOKEN = "a-secret-of-the-browser-tests"
PATIENCE_MS = 30_000.0
"""Milliseconds after which a wait fails its test; long, because machines are shared."""

WIDE = {"width": 1380, "height": 900}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the test that cancels the shared job last, in every order of tests."""
    places = [place for place, item in enumerate(items) if item.path.parent == SLOW_JOB.parent]
    mine = [items[place] for place in places]
    mine.sort(key=lambda item: (str(item.path), "cancels" in item.name))
    for place, item in zip(places, mine, strict=True):
        items[place] = item


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("there is no chromium (Debian: apt-get install chromium)")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        # Root can start it only without its sandbox; it opens only the project's own page.
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        with playwright.chromium.launch(executable_path=program, args=sandbox) as browser:
            yield browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a running job's page, as ``flinknet run`` prints it on a terminal."""
    folder = tmp_path_factory.mktemp("job")
    environment = {
        **os.environ,
        "FLINKNET_CHECKPOINTING_DIRECTORY": str(folder),
        "FLINKNET_CLUSTER_TOKEN": TOKEN,
        "FLINKNET_CLUSTER_STACK_SAMPLES": "20",
        "FLINKNET_CLUSTER_STATISTICS_INTERVAL_MS": "250",
        "FLINKNET_NETWORK_NETWORK_MEMORY_BYTES": "8MiB",
        "FLINKNET_NETWORK_SEGMENT_BYTES": "4096",
    }
    command = [sys.executable, "-m", "flinknet", "run", str(SLOW_JOB), "--workers", "2"]
    with (
        (folder / "said").open("w") as said,
        subprocess.Popen(
            command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, stdout=said, text=True
        ) as run,
    ):
        try:
            assert run.stderr is not None
            lines = []
            for line in run.stderr:
                lines.append(line)
                if found := PAGE.match(line):
                    yield f"{found[1]}#token={TOKEN}"
                    break
            else:
                raise AssertionError("".join(lines))
        finally:
            run.terminate()
            run.communicate()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Yield a tab; its errors and warnings fail the test."""
    complaints: list[str] = []
    with browser.new_context(viewport=WIDE) as context:  # type: ignore[arg-type]
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if said.type in _BAD else None)
        yield page
        page.close()
    assert not complaints


_BAD = {"error", "warning"}
