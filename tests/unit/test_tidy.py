"""House rules that a linter does not know: docstrings, sizes, unpickling, and links."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "flinknet").rglob("*.py"))

TEXTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(
        path
        for folder in ("bench", "deploy", "docs", "examples", "flinknet", "tests")
        for path in (ROOT / folder).rglob("*.md")
        if "node_modules" not in path.parts
    ),
]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")

MODULE_LINES_MAX = 900
"""A loose limit: a file ends where its topic ends, not at a number of lines."""

LISTS = {"flinknet/config/network.py"}
"""One list by design: every limit of the exchange, with its reason."""

FUNCTION_LINES_MAX = 80

PICKLES = {"cloudpickle", "pickle"}
NEVER = {"dill", "marshal", "shelve"}
PICKLES_JOBS = (
    "flinknet/graph/graph.py",
    "flinknet/graph/pickler.py",
    "flinknet/graph/record_frames.py",
    "flinknet/cluster/",
)
"""Code is sent as a job graph, on the authenticated control plane.

Records of a job are sent to its own program, by a socket that no other user can open.
"""


def relative(module: Path) -> str:
    return module.relative_to(ROOT).as_posix()


UNTESTED = tomllib.loads((ROOT / "tests" / "coverage.toml").read_text())["untested"]
"""Modules without a test file of their own, with the reason."""

TYPES_IN_A_CIRCLE = [
    one.split(" -> ")
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    if contract["type"] == "acyclic_siblings"
    for one in contract["ignore_imports"]
]
"""Imports for annotations alone, whose circle is one of the types themselves."""


@dataclass(frozen=True)
class Facts:
    """The facts about a module that these rules need.

    The trees of all modules would take much memory.
    """

    has_docstring: bool
    postpones_annotations: bool
    long_functions: Mapping[str, int]
    used: frozenset[str]
    """Imported modules and called functions, of those that run the data that they read."""
    hands_on_only: bool

    @classmethod
    def of(cls, module: Path) -> Facts:
        tree = ast.parse(module.read_text(encoding="utf-8"), relative(module))
        long, used = {}, set()
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    long[node.name] = lines
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                used |= {node.func.id} & {"eval", "exec"}
            else:
                used |= set(imported(node)) & (PICKLES | NEVER)
        future = [one for one in tree.body if isinstance(one, ast.ImportFrom)]
        return cls(
            has_docstring=not tree.body or ast.get_docstring(tree) is not None,
            postpones_annotations=len(tree.body) <= 1  # not more than a docstring
            or "from __future__ import annotations" in map(ast.unparse, future),
            long_functions=long,
            used=frozenset(used),
            hands_on_only=len(tree.body) > 1 and hands_on_only(tree),
        )


def imported(node: ast.AST) -> Iterator[str]:
    """Return the top-level packages that a statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield node.module.partition(".")[0]


_REFUSES_OTHER_NAMES = "if not TYPE_CHECKING:\n    __getattr__ = not_here(__name__)"


def hands_on_only(tree: ast.Module) -> bool:
    """Return whether a module only imports names and declares its exports."""
    _, *statements, exports = tree.body
    if isinstance(exports, ast.If) and ast.unparse(exports) == _REFUSES_OTHER_NAMES:
        *statements, exports = statements
    return (
        isinstance(exports, ast.Assign)
        and ast.unparse(exports.targets[0]) == "__all__"
        and all(isinstance(one, ast.ImportFrom) for one in statements)
    )


@pytest.fixture(scope="module")
def facts() -> dict[str, Facts]:
    """Return the facts of all modules; a test for each module would cost more than its checks."""
    return {relative(module): Facts.of(module) for module in MODULES}


def test_there_are_modules_to_check() -> None:
    assert ROOT / "flinknet" / "config" / "network.py" in MODULES
    assert {ROOT / "README.md", ROOT / "bench" / "README.md"} <= set(TEXTS)


def test_a_module_says_what_it_is(facts: dict[str, Facts]) -> None:
    assert [name for name, one in facts.items() if not one.has_docstring] == []


def test_a_module_postpones_annotations(facts: dict[str, Facts]) -> None:
    assert [name for name, one in facts.items() if not one.postpones_annotations] == []


def test_modules_are_short_and_leave_nothing_to_do() -> None:
    long, left = {}, {}
    for module in MODULES:
        text, name = module.read_text(encoding="utf-8"), relative(module)
        if (lines := len(text.splitlines())) > MODULE_LINES_MAX and name not in LISTS:
            long[name] = lines
        if found := re.findall(r"\b(?:TODO|FIXME|XXX)\b.*", text):
            left[name] = found
    assert (long, left) == ({}, {})


def test_functions_are_short(facts: dict[str, Facts]) -> None:
    long = {name: one.long_functions for name, one in facts.items() if one.long_functions}
    assert not long, f"split them: {long}"


def test_no_module_runs_what_it_reads(facts: dict[str, Facts]) -> None:
    wrong = {
        name: not_allowed
        for name, one in facts.items()
        if (not_allowed := one.used - (PICKLES if name.startswith(PICKLES_JOBS) else set()))
    }
    assert wrong == {}


def test_a_module_has_its_test_file(facts: dict[str, Facts]) -> None:
    """`tests/unit` mirrors `flinknet`, so that the tests of a module are found by its name."""
    without: list[str] = []
    needless: list[str] = []
    for module in MODULES:
        name, inside = relative(module), module.relative_to(ROOT / "flinknet")
        test_file = ROOT / "tests" / "unit" / inside.with_name(f"test_{inside.name}")
        needs_none = (
            module.stem in {"__init__", "__main__"} or name in UNTESTED or facts[name].hands_on_only
        )
        if test_file.exists() == needs_none:
            (needless if needs_none else without).append(name)
    assert (without, needless) == ([], [])


def test_no_imports_go_in_a_circle() -> None:
    """`make check` finds circles between modules and packages.

    This test names them, and also finds circles through the exports of a package.
    """
    graph = grimp.build_graph("flinknet", cache_dir=None)
    for importer, imported in TYPES_IN_A_CIRCLE:
        graph.remove_import(importer=importer, imported=imported)
    circles = {
        " -> ".join([*chain, module])
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
        if (chain := graph.find_shortest_chain(imported, module))
    }
    assert not circles


def test_relative_links_lead_somewhere() -> None:
    astray = {
        relative(text): lost
        for text in TEXTS
        if (
            lost := [
                link
                for link in LINK.findall(text.read_text(encoding="utf-8"))
                if not (text.parent / link).exists()
            ]
        )
    }
    assert astray == {}


def test_the_tests_that_continuous_integration_names_are_there() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    named = [
        f"{start}{name}"
        for start, names in re.findall(r"\b(tests/[\w/]*)(?:\{([\w,]+)\})?", script)
        for name in names.split(",")
    ]
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.xdist_group("tidy")
def test_what_belongs_together_runs_in_one_process(request: pytest.FixtureRequest) -> None:
    """xdist decides by a test's name, to which it adds the group.

    From 9.2 on pytest does not accept this from xdist 3.8, and Spark, browsers and benchmarks then
    ran side by side.
    """
    is_shared = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@tidy") == is_shared
