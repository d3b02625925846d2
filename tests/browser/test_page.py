"""The web page in a real browser: a job with one slow operator, and one with 2,000 subtasks."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import ROOT
from tests.browser.wide_job import PARALLELISM

pytestmark = pytest.mark.xdist_group("browser")

ROWS_IN_SIGHT = 60
"""Far more rows than fit into a table's frame, and far fewer than the table has."""


@pytest.fixture
def job(page: Page, address: str) -> Page:
    """Return the tab with the page of the slow job."""
    page.goto(address)
    page.get_by_role("link", name="orders").click()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()
    return page


class WideJob:
    """A job of 2,000 subtasks in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.address = self._line().removeprefix("page: ").strip()

    def report(self) -> None:
        """Let all of its workers send a report."""
        assert self._process.stdin is not None
        self._process.stdin.write("report\n")
        self._process.stdin.flush()
        assert self._line() == "reported\n"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@pytest.fixture(scope="module")
def wide() -> Iterator[WideJob]:
    command = [sys.executable, "-m", "tests.browser.wide_job"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield WideJob(process)
        finally:
            process.kill()


def test_the_culprit_is_read_off_the_page(job: Page, tmp_path: Path) -> None:
    verdict = job.get_by_role("region", name="diagnosis")
    expect(verdict).to_contain_text("Slow lookup is the bottleneck")
    verdict.get_by_text("Evidence").click()
    expect(verdict).to_contain_text("Slow lookup (1/2) was busy")
    culprit = job.get_by_role("link", name=re.compile("^Slow lookup, 2 subtasks.*holds the job up"))
    expect(culprit).to_contain_text("culprit")
    expect(job.locator(".edge")).to_have_count(3)
    expect(job.locator(".edge").nth(1)).to_contain_text(re.compile(r"HASH.*[1-9].*/s"))
    expect(job.get_by_role("table", name=re.compile("Time lost"))).to_contain_text("Parse (1/2)")
    assert "token" not in job.url
    picture = tmp_path / "job.png"
    job.screenshot(path=picture)
    assert picture.stat().st_size > 10_000


def test_a_vertex_shows_subtasks_backpressure_buffers_and_plots(job: Page) -> None:
    job.get_by_role("link", name=re.compile("^Parse, ")).click()
    rows = job.get_by_role("region", name="Subtasks").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("worker-0")
    tabs = job.get_by_role("navigation", name="vertex")
    tabs.get_by_role("link", name="Backpressure").click()
    expect(job.get_by_role("region", name="Backpressure by subtask")).to_contain_text("HIGH")
    job.get_by_role("button", name="compare with samples").click()
    expect(job.get_by_role("columnheader", name="Sampled")).to_be_visible()
    expect(job.get_by_role("status").filter(has_text="Samples until")).to_be_visible()
    tabs.get_by_role("link", name="Watermarks").click()
    expect(job.get_by_role("region", name="Watermarks by subtask")).to_contain_text("worker-1")
    expect(job.get_by_text("no record that comes here has a timestamp")).to_be_visible()
    tabs.get_by_role("link", name="Buffers").click()
    expect(job.get_by_role("region", name="Buffers by subtask")).to_contain_text("worker-1")
    tabs.get_by_role("link", name="Metrics").click()
    job.get_by_label("Metric").fill("numRecordsOutPerSecond")
    job.get_by_role("button", name="plot").click()
    figure = job.get_by_role("figure")
    expect(figure).to_contain_text("numRecordsOutPerSecond")
    expect(figure).to_contain_text("sum of all")
    expect(figure.get_by_role("img")).to_be_visible()


def test_a_flame_graph_shows_the_calls_that_a_vertex_waits_for(job: Page, tmp_path: Path) -> None:
    job.get_by_role("link", name=re.compile("^Slow lookup, ")).click()
    tabs = job.get_by_role("navigation", name="vertex")
    tabs.get_by_role("link", name="Flame graph").click()
    flame = job.get_by_role("group", name="flame graph")
    waiting = flame.get_by_role("button", name=re.compile(r"^slow \(slow_job.py:\d+\)"))
    expect(waiting).to_be_visible()
    job.get_by_role("button", name="off CPU: waiting").click()
    expect(waiting).to_be_visible()
    job.get_by_role("combobox", name="Subtask").select_option("2")
    expect(waiting).to_be_visible()
    picture = tmp_path / "flame.png"
    job.screenshot(path=picture)
    waiting.focus()
    job.keyboard.press("Enter")
    expect(flame.get_by_role("button").first).to_have_attribute("aria-label", re.compile("^slow "))
    job.get_by_role("button", name="show all").click()
    expect(flame.get_by_role("button").first).to_have_attribute("aria-label", re.compile("^root"))


def test_the_exchange_below_is_shown(job: Page) -> None:
    job.get_by_role("navigation", name="job").get_by_role("link", name="Network").click()
    expect(job.get_by_role("region", name="Network buffer pools")).to_contain_text("2,048")
    expect(job.get_by_role("region", name="Connections")).to_contain_text("worker-1 at 127.0.0.1")
    channels = job.get_by_role("region", name="Channels with the most waiting data")
    expect(channels).to_contain_text("Slow lookup")
    head = channels.get_by_role("columnheader", name="Channel", exact=True)
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")


def test_checkpoints_exceptions_and_workers_are_shown(job: Page) -> None:
    tabs = job.get_by_role("navigation", name="job")
    tabs.get_by_role("link", name="Checkpoints").click()
    expect(job.get_by_role("region", name="History")).to_contain_text("progress")
    tabs.get_by_role("link", name="Exceptions").click()
    expect(job.get_by_text("No attempt of this job has failed.")).to_be_visible()
    job.get_by_role("navigation", name="cluster").get_by_role("link", name="Workers").click()
    expect(job.get_by_role("region", name="Workers")).to_contain_text("worker-0")


def test_a_process_shows_its_log_and_its_stacks(job: Page, tmp_path: Path) -> None:
    job.get_by_role("navigation", name="cluster").get_by_role("link", name="Workers").click()
    job.get_by_role("link", name="coordinator").click()
    expect(job.get_by_role("region", name="Log of coordinator")).to_contain_text("submitted")
    job.get_by_role("link", name="worker-1").click()
    expect(job.get_by_text("nothing has been logged")).to_be_visible()
    job.get_by_role("navigation", name="process").get_by_role("link", name="Threads").click()
    stacks = job.get_by_role("region", name="Threads and tasks of worker-1")
    expect(stacks).to_contain_text("MainThread")
    job.get_by_role("searchbox", name="Filter").last.fill("task slow lookup")
    expect(stacks).to_contain_text(re.compile(r'^"task Slow lookup'))
    expect(stacks).not_to_contain_text("MainThread")
    picture = tmp_path / "process.png"
    job.screenshot(path=picture)
    assert picture.stat().st_size > 10_000


def test_the_keyboard_is_enough(job: Page) -> None:
    job.keyboard.press("Tab")
    expect(job.get_by_role("link", name="Skip to the content")).to_be_focused()
    job.keyboard.press("Enter")
    for _ in range(20):
        job.keyboard.press("Tab")
        if job.evaluate("document.activeElement.matches('a.node')"):
            break
    job.keyboard.press("Enter")
    expect(job.get_by_role("navigation", name="vertex")).to_be_visible()


def test_without_the_token_it_is_asked_for(page: Page, address: str) -> None:
    place, _, token = address.partition("#token=")
    page.goto(place)
    expect(page.get_by_role("heading", name="Cluster token")).to_be_visible()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("link", name="orders")).to_be_visible()


def test_thousands_of_subtasks_cost_as_much_as_their_visible_part(
    page: Page, wide: WideJob
) -> None:
    page.goto(wide.address)
    page.get_by_role("link", name=re.compile("^Source.*1000 subtasks")).click()
    table = page.get_by_role("region", name="Subtasks")
    expect(table.locator("table")).to_have_attribute("aria-rowcount", str(PARALLELISM + 1))
    page.get_by_label("Refresh").select_option("paused")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate("performance.clearMeasures()")
    refreshes = 3
    for number in range(refreshes):
        wide.report()
        page.evaluate("dispatchEvent(new HashChangeEvent('hashchange'))")
        page.wait_for_function(
            "count => performance.getEntriesByName('refresh').length === count", arg=number + 1
        )
    assert len(asked) == refreshes, "one request tells all"
    assert 10 < table.locator("tbody tr").count() < ROWS_IN_SIGHT
    spent = page.evaluate("performance.getEntriesByName('refresh').map(one => one.duration)")
    print(f"script time of a refresh: {sorted(map(round, spent))} ms")
    table.evaluate("frame => frame.scrollTop = frame.scrollHeight")
    expect(table.get_by_role("row").last).to_have_attribute("aria-rowindex", str(PARALLELISM + 1))
    page.get_by_label("filter Subtasks").fill("worker-1")
    expect(table.locator("table")).to_have_attribute("aria-rowcount", str(PARALLELISM // 2 + 1))


LAYOUT = """
async (job) => {
  const { html, render } = await import("/page/htm-preact.js");
  const { Graph } = await import("/page/graph.js");
  const host = document.createElement("div");
  document.body.prepend(host);
  const culprits = new Set([job.vertices[0].id]);
  render(html`<${Graph} job=${job} culprits=${culprits} chosen=${null} />`, host);
  const svg = host.querySelector("svg").getBoundingClientRect();
  const place = (element) => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    const [x, y] = [svg.left, svg.top];
    return { left: left - x, top: top - y, right: right - x, bottom: bottom - y };
  };
  const inside = ({ x, y }, box, by) =>
    x > box.left + by && x < box.right - by && y > box.top + by && y < box.bottom - by;
  const overlap = (one, other) => one.left < other.right - 1 && other.left < one.right - 1
    && one.top < other.bottom - 1 && other.top < one.bottom - 1;
  const boxes = [...host.querySelectorAll(".node .box")].map(place);
  const told = (line) => ({ ...place(line), said: line.textContent });
  const labels = [...host.querySelectorAll(".edge")].map((edge) =>
    [...edge.querySelectorAll("text, .cut")].map(told));
  const every = labels.flat();
  const faults = [];
  host.querySelectorAll(".edge path").forEach((path, edge) => {
    const end = path.getTotalLength() - 4;
    for (let at = 4; at < end; at += 2) {
      const point = path.getPointAtLength(at);
      if (boxes.some((box) => inside(point, box, 2))) faults.push(`edge ${edge} crosses a vertex`);
      for (const line of every) {
        if (inside(point, line, 1)) faults.push(`edge ${edge} crosses ${line.said}`);
      }
    }
  });
  labels.forEach((lines, edge) => lines.forEach((line) => {
    if (boxes.some((box) => overlap(box, line))) faults.push(`${line.said} lies on a vertex`);
    const others = labels.slice(edge + 1).flat();
    if (others.some((one) => overlap(one, line))) faults.push(`${line.said} lies on a label`);
    if (line.left < 0 || line.top < 0) faults.push(`${line.said} is outside`);
    if (line.bottom > svg.height) faults.push(`${line.said} is below`);
  }));
  host.querySelectorAll(".node").forEach((node) => {
    const box = place(node.querySelector(".box"));
    for (const line of node.querySelectorAll("text, .cut")) {
      const { left, right, top, bottom } = place(line);
      if (left < box.left || right > box.right || top < box.top || bottom > box.bottom) {
        faults.push(`${line.textContent} leaves its box`);
      }
    }
  });
  render(null, host);
  host.remove();
  return [...new Set(faults)];
}
"""


def drawn(sizes: Random) -> dict[str, Any]:
    """Return a random job graph with names and numbers of any length."""
    count = sizes.randint(2, 12)
    names = ["map", "W" * 80, "a name of many words " * 5, "解析" * 30]
    many = [0, 7, 65_535, 123_456_789_012]
    vertices = [
        {
            "number": number,
            "id": f"{number:032x}",
            "name": sizes.choice(names),
            "parallelism": sizes.choice([1, 10_000]),
            "state": "RUNNING",
            "reported": sizes.choice([0, 1]),
            "busy": sizes.random(),
            "backpressured": sizes.random(),
            **{
                name: sizes.choice(many)
                for name in (
                    "records_in",
                    "records_out",
                    "records_in_per_s",
                    "records_out_per_s",
                )
            },
        }
        for number in range(count)
    ]
    pairs = [(source, target) for target in range(1, count) for source in range(target)]
    edges = [
        {
            "source": source,
            "target": target,
            "name": sizes.choice(["HASH", "BROADCAST", "CUSTOM " + "W" * 40]),
            "records_per_s": sizes.choice([None, *many]),
            **{
                name: sizes.choice(many)
                for name in ("bytes_per_s", "queued_out", "queued_in", "credit", "backlog")
            },
        }
        for source, target in sizes.sample(pairs, min(len(pairs), sizes.randint(1, 2 * count)))
    ]
    return {"id": "0" * 32, "vertices": vertices, "edges": edges}


def test_nothing_in_a_graph_lies_on_anything_else(page: Page, address: str) -> None:
    """In any graph, no edge crosses a vertex or a label, and no text leaves its box."""
    page.goto(address)
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    for seed in range(40):
        job = drawn(Random(seed))
        faults = page.evaluate(LAYOUT, job)
        assert faults == [], f"seed {seed}"


@pytest.mark.parametrize("width", [390, 768])
def test_a_narrow_window_scrolls_nothing_but_tables_and_graphs(job: Page, width: int) -> None:
    """Only tables and graphs scroll sideways in a narrow window, in each view."""
    base = job.url
    job.set_viewport_size({"width": width, "height": 800})
    expect(job.get_by_text("Time lost in the last")).to_be_visible()
    culprit = job.get_by_role("link", name="holds the job up").first.get_attribute("href")
    assert culprit is not None
    vertex = base.partition("#")[0] + culprit.rpartition("/")[0]
    views = [base, *(f"{base}/{tab}" for tab in ("network", "checkpoints", "exceptions"))]
    views += [f"{vertex}/{tab}" for tab in ("subtasks", "flamegraph", "metrics")]
    views += [base.partition("#")[0] + rest for rest in ("#/", "#/workers")]
    for view in views:
        job.goto(view)
        expect(job.locator("main h1, main h3").first).to_be_visible()
        assert job.evaluate("document.documentElement.scrollWidth") <= width, view


def test_dark_and_light_differ(job: Page) -> None:
    grounds = set()
    for scheme in ("light", "dark"):
        job.emulate_media(color_scheme=scheme)
        grounds.add(job.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2


def test_a_confirmed_cancel_cancels_the_job(job: Page) -> None:
    """Confirming the dialog cancels the job.

    The test runs last, because it ends the job of the other tests.
    """
    job.get_by_label("Refresh").select_option("paused")
    job.get_by_role("button", name="Cancel").click()
    dialog = job.get_by_role("dialog", name="Cancel")
    dialog.get_by_role("button", name="Back").click()
    expect(dialog).to_be_hidden()
    job.get_by_role("button", name="Cancel").click()
    with job.expect_response("**/v1/jobs/*?mode=cancel") as answer:
        dialog.get_by_role("button", name="Cancel the job").click()
    assert answer.value.status == 202
    expect(job.get_by_text("The job is being cancelled.")).to_be_visible()
