"""Types that checkers infer in programs: small programs with ``assert_type`` and expected errors.

A line of a program that a checker must refuse ends with ``# error:`` and the codes of the errors.
"""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from mypy import api

PROGRAMS = sorted((Path(__file__).parent / "typing_programs").glob("*.py"))
ROOT = Path(__file__).parents[3]
EXPECTED = re.compile(r"# error: ([a-z-]+(?:, [a-z-]+)*)$")
REPORTED = re.compile(r"(.+?):(\d+): error: .*\[([a-z-]+)\]$")

Errors = dict[tuple[str, int], list[str]]
"""The codes of the errors, by the name of the program and the line."""


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Errors:
    """Check all programs in one run, outside of the tests, whose checks are less strict."""
    directory = tmp_path_factory.mktemp("programs")
    for program in PROGRAMS:
        shutil.copy(program, directory)
    cache = ROOT / ".mypy_cache"  # of `make check`, which takes most of the time
    config = ROOT / "pyproject.toml"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        output, problems, _ = api.run(
            [f"--config-file={config}", f"--cache-dir={cache}", "--no-pretty", str(directory)]
        )
    assert not problems
    errors: Errors = defaultdict(list)
    for line in output.splitlines()[:-1]:
        if ": note: " not in line:
            found = REPORTED.match(line)
            assert found, f"mypy says: {line}"
            errors[Path(found[1]).name, int(found[2])].append(found[3])
    return errors


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_mypy_infers_the_types_of_a_program(program: Path, reported: Errors) -> None:
    expected = {
        (program.name, number): sorted(found[1].split(", "))
        for number, line in enumerate(program.read_text(encoding="utf-8").splitlines(), 1)
        if (found := EXPECTED.search(line))
    }
    assert expected, "a program without errors does not tell that records are checked at all"
    here = {place: sorted(codes) for place, codes in reported.items() if place[0] == program.name}
    assert here == expected
