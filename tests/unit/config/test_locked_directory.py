"""Temporary directories are removed with their process, even if it was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flinknet.config.locked_directory import LockedDirectory, remove_leftovers

ROOT = Path(__file__).parents[3]
OWNER = """
import sys
from pathlib import Path
from flinknet.config.locked_directory import LockedDirectory
directory = LockedDirectory("flinknet-test-", Path(sys.argv[1]))
(directory.path / "rows").write_text("something")
print(directory.path, flush=True)
sys.stdin.read()
"""


def test_it_is_made_and_removed(tmp_path: Path) -> None:
    directory = LockedDirectory("flinknet-test-", tmp_path)
    assert directory.path.parent == tmp_path
    assert directory.path.name.startswith("flinknet-test-")
    assert directory.path.stat().st_mode & 0o777 == 0o700
    assert remove_leftovers("flinknet-test-", tmp_path) == [], "its process is there"
    directory.close()
    directory.close()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        LockedDirectory("flinknet-test-", tmp_path / "file")


def test_only_directories_of_killed_processes_are_removed(tmp_path: Path) -> None:
    for other in ("other", "flinknet-test-without-a-lock", "flinknet-other-"):
        (tmp_path / other).mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        directory = Path(process.stdout.readline().strip())
        assert remove_leftovers("flinknet-test-", tmp_path) == []
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (directory / "rows").exists()
    assert remove_leftovers("flinknet-test-", tmp_path) == [directory]
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["flinknet-other-", "flinknet-test-without-a-lock", "other"]
