"""The documentation site: it builds without warnings, is complete, and can be read in a browser.

All tests share one build, because a build takes longer than all of them together.
"""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from flinknet.datastream.connectors.directory_sink import DirectorySink
from tests.browser.conftest import ROOT

pytestmark = [pytest.mark.xdist_group("site"), pytest.mark.timeout(300)]

PUBLIC = (
    "flinknet",
    "flinknet.sync",
    "flinknet.datastream",
    "flinknet.config",
    "flinknet.errors",
    "flinknet.cluster",
    "flinknet.spark",
)
INTERNAL = {"flinknet.__version__", "flinknet.errors.KeptError", "flinknet.errors.remote_error"}
"""Names in ``__all__`` that are for other modules of the package."""

ORIGIN = "http://site.test"
PHONE = {"width": 390, "height": 844}
SCHEMES = {"light": "default", "dark": "slate"}
"""The scheme of the site for each colour scheme of the system."""

CONTRAST_MIN = 4.5
"""WCAG 2, level AA, for text of normal size."""

WIDTH_AND_BROKEN_PICTURES = """() => [
  document.querySelector(".md-content").scrollWidth,
  [...document.images].filter((one) => !one.naturalWidth).map((one) => one.src),
]"""

LEAST_CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const over = (colour, below) => {
    canvas.fillStyle = `rgb(${below})`; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const ground = (node) => node === null ? [255, 255, 255]
    : over(getComputedStyle(node).backgroundColor, ground(node.parentElement));
  const light = (colour) => {
    const [r, g, b] = colour.map((one) => one / 255)
      .map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const kinds = new Map();
  const article = document.querySelector("article");
  for (const node of article.querySelectorAll("p, li, td, th, a, code, pre span, h1, h2, h3")) {
    const text = [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
    if (!text || node.classList.contains("headerlink") || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const kind = `${node.tagName} ${style.color} ${node.className}`;
    if (kinds.has(kind)) continue;
    const below = ground(node);
    const [low, high] = [light(over(style.color, below)), light(below)].sort((a, b) => a - b);
    kinds.set(kind, (high + 0.05) / (low + 0.05));
  }
  return [...kinds].map(([kind, contrast]) => [contrast, kind]).sort((a, b) => a[0] - b[0]);
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; the build is strict, so a broken link or reference is an error."""
    folder = tmp_path_factory.mktemp("site")
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return folder


def serve(site: Path, context: BrowserContext) -> list[str]:
    """Answer requests for ``ORIGIN`` with the site's files; return the refused addresses.

    A server would hold connections of the browser open beyond the end of a test.
    """
    refused: list[str] = []

    def answer(route: Route) -> None:
        if route.request.url.startswith(f"{ORIGIN}/"):
            file = site / unquote(urlsplit(route.request.url).path).lstrip("/")
            file = file / "index.html" if file.is_dir() else file
            route.fulfill(path=file) if file.exists() else route.fulfill(status=404)
        else:
            refused.append(route.request.url)
            route.abort()

    context.route("**/*", answer)
    return refused


@pytest.fixture(scope="module")
def objects(site: Path) -> frozenset[str]:
    """Return the names that the reference of the API has an anchor for."""
    content = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return frozenset(line.split(" ")[0] for line in zlib.decompress(content).decode().splitlines())


def test_a_page_has_the_text_from_beside_the_code(site: Path) -> None:
    page = (site / "explanation" / "architecture" / "index.html").read_text()
    assert 'id="a-records-way"' in page


@pytest.mark.parametrize("name", PUBLIC)
def test_the_reference_has_every_public_name(objects: frozenset[str], name: str) -> None:
    names = {f"{name}.{one}" for one in importlib.import_module(name).__all__}
    assert names - INTERNAL - objects == set()


@pytest.mark.parametrize("name", PUBLIC)
def test_the_reference_has_every_method(objects: frozenset[str], name: str) -> None:
    """A method is with its class, or with a public class that it is inherited from.

    Methods that ``DirectorySink`` adds to those of a sink are for this package only.
    """
    assert sorted(set(undocumented(importlib.import_module(name), objects))) == []


def undocumented(module: ModuleType, objects: frozenset[str]) -> Iterator[str]:
    """Return the public methods of a module's classes that have no anchor."""
    for exported in module.__all__:
        class_ = getattr(module, exported)
        if f"{module.__name__}.{exported}" in INTERNAL or not inspect.isclass(class_):
            continue
        for name in dir(class_):
            owners = [one for one in class_.__mro__ if name in vars(one)] or [object]
            if name.startswith("_") or not owners[0].__module__.startswith("flinknet."):
                continue
            anchors = {f"{module.__name__}.{exported}.{name}"}
            anchors |= {f"{one.__module__}.{one.__qualname__}.{name}" for one in class_.__mro__}
            if owners[0] is not DirectorySink and not anchors & objects:
                yield f"{exported}.{name}"


def test_every_page_fits_a_phone_and_loads_nothing_from_elsewhere(
    browser: Browser, site: Path
) -> None:
    """Without the theme's scripts, which take longer than all the rest.

    They change no width of the text, only that of the header: see the test below.
    """
    wide: dict[str, int] = {}
    with browser.new_context(viewport=PHONE, java_script_enabled=False) as context:  # type: ignore[arg-type]
        refused = serve(site, context)
        page = context.new_page()
        for file in sorted(site.rglob("index.html")):
            path = file.parent.relative_to(site).as_posix()
            page.goto(f"{ORIGIN}/{path}/")
            width, broken = page.evaluate(WIDTH_AND_BROKEN_PICTURES)
            assert broken == [], path
            if width > PHONE["width"]:
                wide[path] = width
        page.close()
    assert wide == {}
    assert refused == []


@pytest.mark.parametrize("system", SCHEMES)
def test_text_can_be_read_in_both_schemes(page: Page, site: Path, system: str) -> None:
    refused = serve(site, page.context)
    page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    page.emulate_media(color_scheme=system)  # type: ignore[arg-type]
    for path in ("", "tutorial/first-job/", "how-to/more-machines/", "reference/api/spark/"):
        page.goto(f"{ORIGIN}/{path}")
        expect(page.locator("body")).to_have_attribute("data-md-color-scheme", SCHEMES[system])
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        least = page.evaluate(LEAST_CONTRAST)
        assert len(least) > 5
        assert [kind for kind in least if kind[0] < CONTRAST_MIN] == [], path
    assert refused == []
