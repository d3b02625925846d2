"""The READMEs quote the content of ``bench/results``, and no other numbers."""

from __future__ import annotations

import inspect
import os
import re
from io import StringIO
from pathlib import Path

import matplotlib.image
import pytest
from rich.console import Console

from bench.cli import COLUMNS_MIN, RESULTS, main
from bench.families import FAMILIES
from bench.harness.family import Family
from bench.harness.machine import describe
from bench.harness.row import Row, read_json

BENCH = RESULTS.parent
FIGURES = sorted((BENCH / "figures").glob("*.png"))
FIGURE_BYTES_MAX = 100_000
SHOWN = {
    "isolation": (BENCH / "README.md", ["isolation"]),
    "pressure": (BENCH / "pressure" / "README.md", ["pressure"]),
    "ramp-up": (BENCH / "ramp_up" / "README.md", ["ramp-up"]),
    "timeouts": (BENCH / "README.md", ["timeouts"]),
    "peers": (BENCH.parent / "README.md", ["peers", "--case", "tuple,keyby"]),
}
"""The README that shows each figure, and the arguments that draw it."""

every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=list(FAMILIES))


def stored(family: Family) -> tuple[str, list[Row]]:
    facts, rows = read_json(RESULTS / f"{family.name}.json")
    return describe(facts), rows


def readme_of(family: Family) -> Path:
    return Path(inspect.getfile(type(family))).with_name("README.md")


def draw(arguments: list[str], to: Path) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["figure", *arguments, "--to", str(to)])
    assert exit_.value.code == 0


def test_every_family_is_stored_and_nothing_else() -> None:
    assert {path.stem for path in RESULTS.glob("*.json")} == set(FAMILIES)


@every_family
def test_what_is_stored_is_verified(family: Family) -> None:
    for row in stored(family)[1]:
        assert row.family == family.name
        assert row.verified if row.runs else "not_run" in row.parameters


@every_family
def test_the_readme_of_a_family_has_its_machine_and_its_table(family: Family) -> None:
    machine, rows = stored(family)
    printed = StringIO()
    family.print(rows, Console(file=printed, width=COLUMNS_MIN))
    table = "\n".join(line.rstrip() for line in printed.getvalue().splitlines()).strip("\n")
    quoted = re.findall(
        rf"<!-- {family.name} -->\n(.*?)<!-- end -->", readme_of(family).read_text(), re.DOTALL
    )
    assert quoted == [f"{machine}\n\n```\n{table}\n```\n"]


@every_family
def test_the_index_leads_to_every_family(family: Family) -> None:
    link = readme_of(family).relative_to(BENCH).as_posix()
    assert f"| [`{family.name}`]({link}) |" in (BENCH / "README.md").read_text()


@every_family
def test_the_figure_of_a_family_is_drawn_from_what_is_stored(
    family: Family, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    draw([family.name], tmp_path)
    height, width, _ = matplotlib.image.imread(tmp_path / f"{family.name}.png").shape
    assert height > 200 < width
    assert capsys.readouterr().out == f"Figure in {tmp_path / family.name}.png\n"


def test_only_the_figures_that_a_readme_shows_are_kept() -> None:
    assert {path.stem for path in FIGURES} == set(SHOWN)
    assert not list(RESULTS.rglob("*.png"))


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.name)
def test_a_figure_that_is_shown_is_small_and_drawn_from_what_is_stored(
    path: Path, tmp_path: Path
) -> None:
    readme, arguments = SHOWN[path.stem]
    assert f"]({os.path.relpath(path, readme.parent)})" in readme.read_text()
    assert path.stat().st_size < FIGURE_BYTES_MAX
    draw(arguments, tmp_path)
    kept, drawn = (matplotlib.image.imread(each) for each in (path, tmp_path / path.name))
    assert kept.shape == drawn.shape  # fonts differ between machines, lines and panels do not
