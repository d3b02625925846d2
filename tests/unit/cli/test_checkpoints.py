"""``flinknet checkpoints``: the kept checkpoints, and whether they are good."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from flinknet.checkpoint.fenced_store import FencedStore
from flinknet.checkpoint.file_storage import FileStorage
from flinknet.checkpoint.store import CheckpointStore
from flinknet.cli.checkpoints import _size, _span
from flinknet.cli.main import main
from flinknet.config import CheckpointingConfig
from flinknet.wire.checkpoint_options import CheckpointKind
from tests.unit.checkpoint.checkpoints import LARGE, change, made

CONFIG = CheckpointingConfig()


async def _make(top: Path) -> None:
    for job_id in ("job-1", "job-2"):
        store = CheckpointStore(FileStorage(top, CONFIG), job_id, CONFIG)
        claimed = await FencedStore.claim(store, 1)
        await made(claimed, 1)
        await made(claimed, 2, CheckpointKind.SAVEPOINT)
        await made(claimed, 3)
        await store.write_part(claimed.directory(4), "p", [(0, LARGE)])


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "300")
    asyncio.run(_make(tmp_path / "all"))
    return tmp_path / "all"


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["checkpoints", *map(str, arguments)])
    assert isinstance(ended.value.code, int)
    shown, aside = capsys.readouterr()
    return ended.value.code, shown, aside


def called_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    status, shown, aside = call(capsys, *arguments, "--json")
    assert (status, aside) == (0, "")
    return json.loads(shown)


def test_a_table_has_each_checkpoint(top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(top / "job-2" / "checkpoint-3-attempt-1" / "metadata", "torn")
    status, shown, _ = call(capsys, "list", top)
    assert status == 0
    lines = [line.split() for line in shown.splitlines()]
    assert [line for line in lines if line and line[-1].startswith(str(top))] == [
        ["flights,", f"{top}/job-1"],
        ["flights,", f"{top}/job-2"],
    ]
    rows = [line for line in lines if line and "-attempt-" in line[0]]
    first = rows[0]
    assert first[:2] == ["checkpoint-1-attempt-1", "complete"]
    assert first[3:] == ["d", "0.25", "s", "30.0", "KiB", "2"]
    assert rows[1][:2] == ["savepoint-2-attempt-1", "complete"]
    assert rows[3] == ["checkpoint-4-attempt-1", "incomplete"]
    assert rows[6] == ["checkpoint-3-attempt-1", "BAD"]


def test_json_is_for_programs(top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, *_, last = called_json(capsys, "list", top / "job-1")
    assert one == {
        "location": f"{top}/job-1/checkpoint-1-attempt-1",
        "state": "complete",
        "error": None,
        "job_id": "job-1",
        "job": "flights",
        "attempt": 1,
        "checkpoint_id": 1,
        "kind": "checkpoint",
        "triggered_ms": 1_700_000_000_001,
        "completed_ms": 1_700_000_000_251,
        "duration_ms": 250,
        "size_bytes": len(LARGE) + 13 + 14,
        "parts": 2,
        "files": 1,
        "written_by": "0.1.0",
    }
    assert (last["state"], last["job"], last["parts"]) == ("incomplete", None, None)


def test_the_last_complete_one_of_a_job_is_shown(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, shown, _ = call(capsys, "show", top / "job-1")
    assert status == 0
    assert "checkpoint-3-attempt-1" in shown
    assert [line.split() for line in shown.splitlines() if "counts" in line] == [
        ["counts", "0", "of", "2", "keyed", "2", "30.0", "KiB", "keyed-0"],
        ["counts", "0", "of", "2", "operator", "1", "14", "B", "(inline)"],
        ["counts", "1", "of", "2", "finished"],
    ]


def test_the_contents_of_a_checkpoint_are_shown_as_json(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = called_json(capsys, "show", top / "job-1" / "savepoint-2-attempt-1")
    assert (shown["kind"], shown["checkpoint_id"]) == ("savepoint", 2)
    (operator,) = shown["operators"]
    first, second = operator["subtasks"]
    assert first["parts"]["keyed"] == {
        "name": "keyed-0",
        "size_bytes": len(LARGE) + 13,
        "sections": [{"label": 3, "size_bytes": len(LARGE)}, {"label": 4, "size_bytes": 13}],
    }
    assert second == {"subtask_index": 1, "finished": True, "parts": {}}


def test_several_jobs_are_not_shown_at_once(top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, aside = call(capsys, "show", top)
    assert status == 2
    assert (
        aside == f"flinknet: {top} has checkpoints of several jobs: give the directory of one job\n"
    )


def test_an_unreadable_checkpoint_is_not_shown(
    top: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = top / "job-1" / "checkpoint-3-attempt-1" / "metadata"
    change(file, "newer")
    status, shown, aside = call(capsys, "show", top / "job-1")
    assert (status, shown) == (2, "")
    assert aside.startswith(f"flinknet: {file} has version 2, but this flinknet reads version 1")


def test_a_good_checkpoint_verifies(top: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, shown, _ = call(capsys, "verify", top)
    assert status == 0
    assert [line.rpartition(": ")[2] for line in shown.splitlines()] == ["good"] * 6


@pytest.mark.parametrize(
    ("name", "how"), [("keyed-0", "a bit"), ("keyed-0", "removed"), ("metadata", "torn")]
)
def test_a_bad_file_is_named_and_the_status_tells(
    top: Path, capsys: pytest.CaptureFixture[str], name: str, how: str
) -> None:
    bad = top / "job-1" / "checkpoint-1-attempt-1"
    change(bad / name, how)
    status, shown, _ = call(capsys, "verify", top / "job-1")
    assert status == 1
    first, second, *good = shown.splitlines()
    assert first == f"{bad}: BAD"
    assert second.startswith(f"  {bad / name} is ")
    assert all(line.endswith(": good") for line in good)
    status, shown, _ = call(capsys, "verify", top / "job-1", "--json")
    assert status == 1
    rows = json.loads(shown)
    assert rows[0]["location"] == str(bad)
    assert [len(row["errors"]) for row in rows] == [1, 0, 0]


@pytest.mark.parametrize("command", ["list", "show", "verify"])
def test_an_error_of_a_wrong_directory_is_one_line(
    top: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    for wrong, reason in (
        (top / "nowhere", "has no files: name a directory of checkpoints"),
        (top / "job-1" / "journal" / f"{0:020d}", "Not a directory"),
    ):
        status, shown, aside = call(capsys, command, wrong)
        assert (status, shown, len(aside.splitlines())) == (2, "", 1)
        assert reason in aside


@pytest.mark.parametrize("command", ["show", "verify"])
def test_an_incomplete_checkpoint_is_neither_shown_nor_verified(
    top: Path, capsys: pytest.CaptureFixture[str], command: str, tmp_path: Path
) -> None:
    (top / "job-1" / "checkpoint-4-attempt-1").rename(tmp_path / "checkpoint-4-attempt-1")
    status, _, aside = call(capsys, command, tmp_path / "new")
    assert status == 2
    (tmp_path / "new").mkdir()
    (tmp_path / "checkpoint-4-attempt-1").rename(tmp_path / "new" / "checkpoint-4-attempt-1")
    status, _, aside = call(capsys, command, tmp_path / "new")
    assert (status, aside) == (2, f"flinknet: {tmp_path}/new has no complete checkpoint\n")


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(-1, "0 s"), (59.4, "59 s"), (90, "1.5 min"), (7200, "2.0 h"), (86_400 * 3, "3.0 d")],
)
def test_an_age_has_a_readable_unit(seconds: float, written: str) -> None:
    assert _span(seconds) == written


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (2**20, "1.0 MiB"), (2**31, "2.0 GiB")],
)
def test_a_size_has_a_readable_unit(number: int, written: str) -> None:
    assert _size(number) == written
