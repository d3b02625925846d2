"""The tests that run each line of the package, and how long each test takes.

Every test file runs once in a fork, with coverage.py. The result is kept in ``build/mutants`` until
the test file, or a module of which a test runs a line, changes.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.examples import Examples
from tests.mutants.forks import Tell, run_in_forks
from tests.mutants.planting import Mutant

__all__ = ["PYTEST", "Covering", "Test"]

PYTEST = (
    "--quiet",
    "--no-header",
    "--exitfirst",
    "--tb=short",
    "-pno:randomly",
    "-pno:cacheprovider",
    "-Wignore::pytest.PytestAssertRewriteWarning",  # the warm process has imported it all
)
TEST_LIMIT_S = 300.0
"""Time for one test with coverage.py."""
FEW_EXAMPLES = 20
"""Examples of Hypothesis, of which few run the same lines as many, and coverage.py is slow."""
NEW_FILE_S = 0.1
"""Time to import a further test file, which decides how many files are worth it."""


@dataclass(frozen=True)
class Test:
    """A test that passes without a fault, and the seconds that it takes with coverage.py."""

    __test__ = False  # pytest collects classes of this name

    file: str
    name: str
    seconds: float


@dataclass
class _File:
    """What a test file runs: for each line of a module a mask, with one bit for each test."""

    tests: list[Test]
    masks: dict[str, dict[int, int]]
    imported: frozenset[str]


class Covering:
    """Tells which tests run a line, for the test files in ``roots``, which are below ``root``."""

    def __init__(self, root: Path, kept: Path, package: str, roots: Iterable[str]) -> None:
        self._root = root
        self._kept = kept
        self._package = package
        self._roots = list(roots)
        self._files: list[_File] = []

    def measure(self, processes: int) -> Iterator[str]:
        """Run the test files of which nothing is kept, or that have changed; yield what happens."""
        files = sorted(
            {path for one in self._roots for path in _test_files(self._root / one)},
            key=lambda path: -path.stat().st_size,
        )
        stale = [file for file in files if not self._is_fresh(file)]
        for file in stale:
            self._path(file).unlink(missing_ok=True)
        if stale:
            yield f"measuring what {len(stale)} test files run"
        works = ((file, self._work(file)) for file in stale)
        for file, ended in run_in_forks(works, processes, self._kept / "logs"):
            if not ended.said.get("measured"):
                how = "takes too long" if ended.timed_out else "fails"
                at = ended.said.get("at", "while it is imported")
                yield f"left out: {file.relative_to(self._root)} {how}: {at}"
        for file in files:
            path = self._path(file)
            if path.exists():
                self._files.append(self._read(file, json.loads(path.read_text())))

    def tests_of(self, mutant: Mutant, left_out: Collection[str], budget_s: float) -> list[Test]:
        """Return the tests to run, first the module's own, then the fastest ones of others.

        All tests of the files that import a module are run for what runs at its import, because a
        test of a constant runs no line of it, and for a line that no test runs.
        """
        own = own_test_file(mutant.file)
        first: list[Test] = []
        others: list[Test] = []
        lines = range(mutant.line, mutant.last_line + 1)
        masks = []
        for file in self._files:
            mask = 0
            for line in lines:
                mask |= file.masks.get(mutant.file, {}).get(line, 0)
            masks.append(mask)
        is_outside = not mutant.is_called or not any(masks)
        for file, mask in zip(self._files, masks, strict=True):
            for number, test in enumerate(file.tests):
                runs = mutant.file in file.imported if is_outside else mask >> number & 1
                if runs and test.name not in left_out:
                    (first if test.file == own else others).append(test)
        first.sort(key=lambda test: test.seconds)
        others.sort(key=lambda test: test.seconds)
        return first + list(_within(others, budget_s))

    # -- what is kept

    def _path(self, file: Path) -> Path:
        name = file.relative_to(self._root).as_posix().replace("/", ".")
        return self._kept / "covering" / f"{name}.json"

    def _is_fresh(self, file: Path) -> bool:
        try:
            kept = json.loads(self._path(file).read_text())
        except (FileNotFoundError, ValueError):
            return False
        digests: dict[str, str] = kept["digests"]
        return all(digest_of(self._root / name) == digest for name, digest in digests.items())

    def _read(self, file: Path, kept: dict[str, Any]) -> _File:
        name = file.relative_to(self._root).as_posix()
        tests = [Test(name, test, seconds) for test, seconds in kept["tests"]]
        masks = {
            module: {int(line): int(mask, 16) for line, mask in lines.items()}
            for module, lines in kept["masks"].items()
        }
        return _File(tests, masks, frozenset(kept["imported"]))

    def _work(self, file: Path) -> Any:
        def work(tell: Tell) -> None:
            import coverage

            measuring = coverage.Coverage(
                data_file=None, config_file=False, include=[f"{self._root}/{self._package}/*"]
            )
            plugin = _Measuring(measuring, tell)
            measuring.start()
            arguments = [*PYTEST, f"--rootdir={self._root}", str(file)]
            code = pytest.main(arguments, plugins=[Examples(FEW_EXAMPLES), plugin])
            measuring.stop()
            if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
                return
            tell(limit_s=TEST_LIMIT_S)
            self._keep(file, measuring.get_data(), plugin.tests)
            tell(measured=True)

        return work

    def _keep(self, file: Path, data: Any, tests: dict[str, float]) -> None:
        numbers = {name: number for number, name in enumerate(tests)}
        masks: dict[str, dict[int, str]] = {}
        digests = {file.relative_to(self._root).as_posix(): digest_of(file)}
        imported: list[str] = []
        for measured in sorted(data.measured_files()):
            module = Path(measured).relative_to(self._root).as_posix()
            imported.append(module)
            found: dict[int, int] = defaultdict(int)
            for line, contexts in data.contexts_by_lineno(measured).items():
                for context in contexts:
                    if context in numbers:
                        found[line] |= 1 << numbers[context]
            if found:
                digests[module] = digest_of(Path(measured))
                masks[module] = {line: f"{mask:x}" for line, mask in sorted(found.items())}
        path = self._path(file)
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = {"digests": digests, "imported": imported, "masks": masks}
        path.write_text(json.dumps({**kept, "tests": list(tests.items())}))


class _Measuring:
    """A plugin of pytest that gives coverage.py the name of the running test."""

    def __init__(self, measuring: Any, tell: Tell) -> None:
        self.tests: dict[str, float] = {}
        self._measuring = measuring
        self._tell = tell

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self._tell(limit_s=TEST_LIMIT_S, at=item.nodeid)
        self._measuring.switch_context(item.nodeid)
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            self.tests[item.nodeid] = round(time.perf_counter() - began, 4)
            self._measuring.switch_context("")


def own_test_file(module: str) -> str:
    """Return the path of a module's own test file: ``tests/unit`` mirrors the package."""
    inside = Path(*Path(module).parts[1:])
    return Path("tests", "unit", inside.with_name(f"test_{inside.name}")).as_posix()


@cache
def digest_of(path: Path) -> str:
    """Return a hash of a file; empty if there is none."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    except FileNotFoundError:
        return ""


def _test_files(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(path.rglob("test_*.py"))


def _within(tests: Iterable[Test], budget_s: float) -> Iterator[Test]:
    """Yield tests, fastest first, until the budget is spent."""
    files: set[str] = set()
    for test in tests:
        budget_s -= test.seconds + (0.0 if test.file in files else NEW_FILE_S)
        if budget_s < 0:
            return
        files.add(test.file)
        yield test
