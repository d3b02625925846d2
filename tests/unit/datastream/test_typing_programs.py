"""Types that checkers infer in programs: small programs with ``assert_type`` and expected errors.

A line of a program that a checker must refuse ends with ``# error:`` and mypy's codes of the
errors; pyright has codes of its own. Each checker checks all programs in one run.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from mypy import api

PROGRAMS = sorted((Path(__file__).parent / "typing_programs").glob("*.py"))
ROOT = Path(__file__).parents[3]
PYRIGHT = ROOT / "tests" / "peers" / "node" / "node_modules" / "pyright" / "index.js"
EXPECTED = re.compile(r"# error: ([a-z-]+(?:, [a-z-]+)*)$")
REPORTED = re.compile(r"(.+?):(\d+): error: .*\[([a-z-]+)\]$")

Place = tuple[str, int]
"""The name of a program, and a line."""


def expected() -> dict[Place, list[str]]:
    """Return mypy's codes of the errors of each line that is wrong."""
    return {
        (program.name, number): sorted(found[1].split(", "))
        for program in PROGRAMS
        for number, line in enumerate(program.read_text(encoding="utf-8").splitlines(), 1)
        if (found := EXPECTED.search(line))
    }


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Copy the programs out of the tests, whose checks are less strict than a user's."""
    for program in PROGRAMS:
        shutil.copy(program, tmp_path)
    return tmp_path


def test_every_program_has_errors() -> None:
    """Without any, a program does not tell that its records are checked at all."""
    assert PROGRAMS
    assert {name for name, _ in expected()} == {program.name for program in PROGRAMS}


def test_mypy_infers_types_and_refuses_what_is_wrong(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    # Most of the time goes to the package itself, which is in the cache of `make check`.
    output, problems, _ = api.run(
        ["--config-file=pyproject.toml", "--cache-dir=.mypy_cache", "--no-pretty", str(programs)]
    )
    assert not problems
    reported: dict[Place, list[str]] = defaultdict(list)
    *lines, _ = output.splitlines()
    for line in lines:
        if ": note: " not in line:
            found = REPORTED.match(line)
            assert found, f"mypy says: {line}"
            reported[Path(found[1]).name, int(found[2])].append(found[3])
    assert {place: sorted(codes) for place, codes in reported.items()} == expected()


def test_pyright_infers_the_same_types_and_refuses_the_same_lines(programs: Path) -> None:
    node = shutil.which("node")
    if node is None or not PYRIGHT.exists():
        pytest.skip("there is no pyright: `make node` installs it")
    settings = {"extraPaths": [str(ROOT)], "pythonVersion": "3.11"}
    (programs / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [node, PYRIGHT, "--outputjson", "--pythonpath", sys.executable, "-p", programs],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [one for one in found if one["severity"] == "error"]
    reported: dict[Place, list[str]] = defaultdict(list)
    for one in errors:
        place = Path(one["file"]).name, one["range"]["start"]["line"] + 1
        reported[place].append(one["message"])
    assert set(reported) == set(expected()), dict(reported)
