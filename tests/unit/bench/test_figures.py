"""``python -m bench figure`` draws the stored results, and refuses others."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from bench.cli import RESULTS, main
from bench.families import find_family
from bench.harness.row import read_json


def outcome(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(["figure", *arguments])
    assert isinstance(exit_.value.code, int)
    captured = capsys.readouterr()
    return exit_.value.code, captured.out, captured.err


def test_without_a_family_all_that_are_stored_are_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored, drawn = tmp_path / "stored", tmp_path / "new" / "drawn"
    stored.mkdir()
    for name in ("timeouts", "adaptive"):
        shutil.copy(RESULTS / f"{name}.json", stored)
    code, out, _ = outcome(["--from", str(stored), "--to", str(drawn)], capsys)
    assert code == 0
    assert out.splitlines() == [
        f"Figure in {drawn / name}.png" for name in ("adaptive", "timeouts")
    ]
    assert {path.name for path in drawn.iterdir()} == {"adaptive.png", "timeouts.png"}


def test_some_cases_make_a_smaller_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    heights = []
    for cases in ("tuple", "tuple,bytes-1k"):
        assert outcome(["exchange", "--case", cases, "--to", str(tmp_path)], capsys)[0] == 0
        heights.append(matplotlib.image.imread(tmp_path / "exchange.png").shape[0])
    assert heights[0] < heights[1]


def test_of_what_did_not_run_there_is_no_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "peers.json").write_text('{"machine": {}, "rows": []}')
    code, out, _ = outcome(["peers", "--from", str(tmp_path), "--to", str(tmp_path)], capsys)
    assert (code, out) == (0, "No figure of peers: nothing ran\n")
    assert not (tmp_path / "peers.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "there is no family 'nothing': choose from exchange"),
        (["micro", "--from", "{empty}"], "there are no rows of micro in {empty}: measure it with"),
        (["--from", "{empty}"], "there are no rows in {empty}: measure it with"),
        (["exchange", "--case", "x"], "no stored case of exchange 'x': choose from tuple, long"),
        (["exchange", "micro", "--case", "tuple"], "name the one family whose cases these are"),
    ],
)
def test_what_is_not_stored_is_refused_with_what_is(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty, drawn = tmp_path / "empty", tmp_path / "drawn"
    empty.mkdir()
    named = [argument.format(empty=empty) for argument in arguments]
    code, out, err = outcome([*named, "--to", str(drawn)], capsys)
    assert (code, out) == (2, "")
    assert message.format(empty=empty) in err
    assert not drawn.exists()


def test_a_place_that_is_no_directory_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "exchange.png"
    path.write_bytes(b"a figure")
    code, out, err = outcome(["exchange", "--to", str(path)], capsys)
    assert (code, out) == (2, "")
    assert f"--to is {path}: name a directory (File exists)" in err
    assert path.read_bytes() == b"a figure"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"machine": {}, "rows": [{}]}'])
def test_a_file_of_something_else_is_named(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "window.json"
    path.write_text(content)
    code, _, err = outcome(["window", "--from", str(tmp_path)], capsys)
    assert code == 2
    assert f"{path} does not hold the rows of a run" in err


DRAWN = ("adaptive", "barriers", "credit-cost", "isolation", "pressure", "seeing", "timeouts")
"""Families with few rows that together use every kind of drawing: bars, spreads, and lines."""


def texts_of(axes: Axes) -> Iterator[Text]:
    """Yield the visible texts of a panel: tick labels only within its ends."""
    children = (one for one in axes.get_children() if isinstance(one, Text))
    yield from (axes.xaxis.label, axes.yaxis.label, *children)
    for axis, (low, high), at in (
        (axes.xaxis, sorted(axes.get_xlim()), 0),
        (axes.yaxis, sorted(axes.get_ylim()), 1),
    ):
        for label in axis.get_ticklabels():
            if low <= label.get_position()[at] <= high:
                yield label


def faults_of(figure: Figure) -> list[str]:
    """Return the texts that leave the picture, overlap, or are struck through by a line."""
    found = []
    placed: list[tuple[str, Bbox]] = []
    for axes in figure.axes:
        for text in texts_of(axes):
            said = text.get_text()
            if not said or not text.get_visible():
                continue
            box = text.get_window_extent()
            if not (box.x0 >= -1 and box.x1 <= figure.bbox.width + 1):
                found.append(f"{said!r} leaves the picture")
            inner = box.shrunk(0.9, 0.8)
            found += [
                f"{said!r} lies on {other!r}"
                for other, other_box in placed
                if other != said and other_box.overlaps(inner)
            ]
            placed.append((said, inner))
            if text in axes.texts:
                if box.x1 > axes.get_window_extent().x1 + 1:
                    found.append(f"{said!r} leaves its panel")
                ground = text.get_bbox_patch()
                if axes.lines and (ground is None or text.get_zorder() <= 2):
                    found.append(f"a line may strike {said!r} through")
    return found


@pytest.mark.parametrize("name", DRAWN)
def test_nothing_in_a_figure_lies_on_anything_else(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stored results of each family are drawn."""
    figures: list[Figure] = []
    save = Figure.savefig

    def keep(figure: Figure, file: Any, **options: Any) -> None:
        figures.append(figure)
        save(figure, file, **{**options, "dpi": 10})

    monkeypatch.setattr(Figure, "savefig", keep)
    _, rows = read_json(RESULTS / f"{name}.json")
    find_family(name).draw(rows, tmp_path / "figure.png")
    for figure in figures:
        assert faults_of(figure) == []
