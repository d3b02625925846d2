"""``python -m bench figure`` draws what is stored, and refuses what is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import matplotlib.image
import pytest

from bench.cli import RESULTS, main


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
