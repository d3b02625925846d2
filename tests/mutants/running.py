"""Run tests against a planted fault, in a fork of a warm process."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from itertools import groupby
from pathlib import Path
from types import CodeType

import pytest

from tests.mutants.covering import PYTEST, Test
from tests.mutants.examples import Examples
from tests.mutants.forks import Tell

__all__ = ["plant", "run_tests", "warm_up"]

WARM = (
    "aiohttp",
    "aiohttp.web",
    "cloudpickle",
    "hypothesis",
    "hypothesis.stateful",
    "msgpack",
    "msgspec",
    "numpy",
    "prometheus_client",
    "pyarrow",
    "pytest_asyncio",
    "pytest_randomly",
    "pytest_timeout",
    "uvloop",
    "xdist.plugin",
)
"""Libraries that the tests import, and that take longer to import than most tests run."""
FILES_AT_ONCE = 8
"""Further test files that one run of pytest collects."""
SLOWER = 10.0
STILL_FINE_S = 5.0
"""A test that takes this much longer than without a fault has found it: it never ends."""
UNKNOWN_S = 3.0
"""Time of a test that was not measured."""
COLLECTION_LIMIT_S = 60.0


def warm_up() -> None:
    """Import what each fork needs, but nothing of the package, whose modules are to be changed.

    The forks write bytecode: without it, each would compile the package again.
    """
    sys.dont_write_bytecode = False
    for library in WARM:
        importlib.import_module(library)


def plant(path: Path, source: bytes) -> None:
    """Have ``source`` imported in place of the module at ``path``."""
    code_of = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        if Path(self.path) == path:
            return compile(source, str(path), "exec", dont_inherit=True)
        return code_of(self, fullname)

    # Every finder of source files makes this loader, also that of the package.
    setattr(SourceFileLoader, "get_code", get_code)  # noqa: B010


def run_tests(tests: Sequence[Test], root: Path, tell: Tell) -> None:
    """Run the tests in this order, as far as files allow, until one fails; tell which one."""
    own = tests[0].file
    for part in _parts(tests, own):
        files = list(dict.fromkeys(str(root / test.file) for test in part))
        plugin = _Chosen(part, tell)
        tell(limit_s=COLLECTION_LIMIT_S, at=f"import of {part[0].file}")
        code = pytest.main([*PYTEST, f"--rootdir={root}", *files], plugins=[Examples(), plugin])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            tell(found=True)
            return
    tell(found=False)


def _parts(tests: Sequence[Test], own: str) -> Iterator[list[Test]]:
    """Yield the tests of the first file, and then of a few files each."""
    yield [test for test in tests if test.file == own]
    others = [test for test in tests if test.file != own]
    order = {file: place for place, file in enumerate(dict.fromkeys(t.file for t in others))}
    others.sort(key=lambda test: (order[test.file], test.seconds))
    for _, part in groupby(others, key=lambda test: order[test.file] // FILES_AT_ONCE):
        yield list(part)


class _Chosen:
    """A plugin of pytest that runs chosen tests, and tells how long each of them may take."""

    def __init__(self, tests: Sequence[Test], tell: Tell) -> None:
        self._seconds = {test.name: test.seconds for test in tests}
        self._order = {test.name: place for place, test in enumerate(tests)}
        self._tell = tell

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        # A fault may change the names of parametrised tests: then the tests of the file decide.
        chosen = [item for item in items if item.nodeid in self._order]
        chosen.sort(key=lambda item: self._order[item.nodeid])
        items[:] = chosen or items

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        limit_s = STILL_FINE_S + SLOWER * self._seconds.get(nodeid, UNKNOWN_S)
        self._tell(limit_s=limit_s, at=nodeid)
