"""House rules that a linter does not know: docstrings, sizes, nothing unpickled, no link astray."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "flinknet").rglob("*.py"))

TEXTS = [
    *sorted(ROOT.glob("*.md")),
    *sorted(
        path
        for folder in ("bench", "deploy", "docs", "flinknet", "tests")
        for path in (ROOT / folder).rglob("*.md")
        if "node_modules" not in path.parts
    ),
]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")

MODULE_LINES_MAX = 900
"""Far more than a thought takes: a file ends where its thought does, not at a number of lines."""

LISTS = {"flinknet/config/network.py"}
"""One list by design: every limit of the exchange stands there, with its reason."""

FUNCTION_LINES_MAX = 80

PICKLES = {"cloudpickle", "pickle"}
NEVER = {"dill", "marshal", "shelve"}
PICKLES_JOBS = (
    "flinknet/task/graph.py",
    "flinknet/task/pickler.py",
    "flinknet/task/record_frames.py",
    "flinknet/cluster/",
)
"""Code travels as a job graph, on the authenticated control plane, and records of a job to its own
program, by a socket that nobody else can open."""


def relative(module: Path) -> str:
    return module.relative_to(ROOT).as_posix()


UNTESTED = tomllib.loads((ROOT / "tests" / "coverage.toml").read_text())["untested"]
"""Modules without a test file of their own, and why."""

every_module = pytest.mark.parametrize("module", MODULES, ids=relative)


def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"), relative(module))


def imported(tree: ast.Module) -> Iterator[str]:
    """Top-level packages that a module imports, at its top or inside a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module.partition(".")[0]


def test_there_are_modules_to_check() -> None:
    assert ROOT / "flinknet" / "config" / "network.py" in MODULES
    assert {ROOT / "README.md", ROOT / "bench" / "README.md"} <= set(TEXTS)


@every_module
def test_a_module_says_what_it_is(module: Path) -> None:
    tree = parsed(module)
    if tree.body:
        assert ast.get_docstring(tree), f"{relative(module)} has no docstring"


@every_module
def test_a_module_postpones_annotations(module: Path) -> None:
    tree = parsed(module)
    if len(tree.body) > 1:  # more than a docstring
        imports = [ast.unparse(node) for node in tree.body if isinstance(node, ast.ImportFrom)]
        assert "from __future__ import annotations" in imports


@every_module
def test_a_module_is_short(module: Path) -> None:
    lines = len(module.read_text(encoding="utf-8").splitlines())
    assert lines <= MODULE_LINES_MAX or relative(module) in LISTS


@every_module
def test_functions_are_short(module: Path) -> None:
    long = {
        node.name: node.end_lineno - node.lineno + 1
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    }
    assert not long, f"split them: {long}"


@every_module
def test_a_module_leaves_nothing_to_do(module: Path) -> None:
    left = re.findall(r"\b(?:TODO|FIXME|XXX)\b.*", module.read_text(encoding="utf-8"))
    assert not left


@every_module
def test_no_module_runs_what_it_reads(module: Path) -> None:
    tree = parsed(module)
    allowed = PICKLES if relative(module).startswith(PICKLES_JOBS) else set()
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    used = (set(imported(tree)) & (PICKLES | NEVER)) | (called & {"eval", "exec"})
    assert used <= allowed


_REFUSES_OTHER_NAMES = "if not TYPE_CHECKING:\n    __getattr__ = not_here(__name__)"


def hands_on_only(tree: ast.Module) -> bool:
    """Whether a module has nothing of its own: it imports, and says what it exports."""
    _, *statements, exports = tree.body
    if isinstance(exports, ast.If) and ast.unparse(exports) == _REFUSES_OTHER_NAMES:
        *statements, exports = statements
    return (
        isinstance(exports, ast.Assign)
        and ast.unparse(exports.targets[0]) == "__all__"
        and all(isinstance(one, ast.ImportFrom) for one in statements)
    )


@every_module
def test_a_module_has_its_test_file(module: Path) -> None:
    """`tests/unit` mirrors `flinknet`: who changes a module knows where its tests are."""
    inside = module.relative_to(ROOT / "flinknet")
    has_its_file = (ROOT / "tests" / "unit" / inside.with_name(f"test_{inside.name}")).exists()
    needs_none = (
        module.stem in {"__init__", "__main__"}
        or relative(module) in UNTESTED
        or hands_on_only(parsed(module))
    )
    assert has_its_file != needs_none


def test_no_imports_go_in_a_circle() -> None:
    """`make check` finds circles between modules and packages; this one names them, and also those
    through what a package exports."""
    graph = grimp.build_graph("flinknet", cache_dir=None)
    circles = {
        " -> ".join([*chain, module])
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
        if (chain := graph.find_shortest_chain(imported, module))
    }
    assert not circles


@pytest.mark.parametrize("text", TEXTS, ids=relative)
def test_relative_links_lead_somewhere(text: Path) -> None:
    links = LINK.findall(text.read_text(encoding="utf-8"))
    astray = [link for link in links if not (text.parent / link).exists()]
    assert not astray


def test_the_tests_that_continuous_integration_names_are_there() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    named = [
        f"{start}{name}{end}"
        for start, names, end in re.findall(r"(tests/[\w/]+)\{([\w,]+)\}([\w.]+)", script)
        for name in names.split(",")
    ]
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.xdist_group("tidy")
def test_what_belongs_together_runs_in_one_process(request: pytest.FixtureRequest) -> None:
    """xdist tells by a test's name, to which it adds the group: from 9.2 on pytest does not take
    that from xdist 3.8, and Spark, browsers and benchmarks ran side by side."""
    is_shared = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@tidy") == is_shared
