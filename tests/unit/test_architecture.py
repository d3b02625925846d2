"""ARCHITECTURE.md, the page behind it and CONTRIBUTING.md agree with the code.

Each file that they name exists and defines the name beside it, and each way gives the right number
of files that it crosses. The table of compiled modules is complete.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from flinknet.compiled_modules import find_sources

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "flinknet"
ARCHITECTURE = (PACKAGE / "ARCHITECTURE.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/explanation/accounts-and-bounds.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TEXT = f"{ARCHITECTURE}\n{PAGE}\n{CONTRIBUTING}"
COMPILED = (ROOT / "docs/explanation/compiled-modules.md").read_text(encoding="utf-8")

SAID = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w./-]*/[\w./-]*|[\w.-]+\.(?:json|md|py|toml)")
BESIDE = re.compile(r"`([\w./-]+\.py)`\s+`([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)`")
NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?")
ROW = re.compile(r"^\| `([\w/]+\.py)` \| (.+) \| (.+) \|$", re.MULTILINE)
"""A compiled module, the reason why it is compiled, and the gain."""
CROSSES = re.compile(r"^It crosses (\d+) files\.", re.MULTILINE)


def passages() -> list[str]:
    """Return paragraphs, points of lists and rows of tables; a statement about a file stays in
    one."""
    prose = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
    return [
        part for part in re.split(r"\n\s*\n|\n(?=\s*(?:\d+\.|-|\|) )", prose) if SAID.search(part)
    ]


@cache
def defined_in(module: Path) -> frozenset[str]:
    """Return every name that a module defines, names of a class also as ``Class.name``."""
    names: set[str] = set()
    tree = ast.parse(module.read_text(encoding="utf-8"))
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    names.update(_names(tree), *(_names(node) for node in classes))
    names.update(f"{node.name}.{name}" for node in classes for name in _names(node))
    return frozenset(names)


def _names(scope: ast.Module | ast.ClassDef) -> set[str]:
    names: set[str] = set()
    for node in scope.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
    return names


def path_of(said: str) -> Path:
    inside = PACKAGE / said
    return inside if inside.exists() else ROOT / said


def ways() -> dict[str, str]:
    """Return the sections that give the number of files on a way, by their headings."""
    sections = (part.partition("\n") for part in ARCHITECTURE.split("\n## ")[1:])
    return {heading: text for heading, _, text in sections if CROSSES.search(text)}


def test_it_names_many() -> None:
    said = SAID.findall(TEXT)
    assert sum(1 for one in said if one.endswith(".py")) > 30


def test_there_is_a_way_of_each_thing() -> None:
    assert list(ways()) == ["A record's way", "A barrier's way", "An error's way", "A job's way"]


@pytest.mark.parametrize("way", ways())
def test_a_way_counts_the_files_that_it_crosses(way: str) -> None:
    text = ways()[way]
    files = {one for one in SAID.findall(text) if one.endswith(".py")}
    assert [one for one in sorted(files) if not (PACKAGE / one).is_file()] == []
    assert [int(number) for number in CROSSES.findall(text)] == [len(files)]


@pytest.mark.parametrize("passage", passages(), ids=lambda passage: " ".join(passage.split())[:40])
def test_what_it_names_is_there(passage: str) -> None:
    said = SAID.findall(passage)
    files = [one for one in said if FILE.fullmatch(one)]
    assert [one for one in files if not path_of(one).exists()] == []
    known = frozenset().union(*map(defined_in, PACKAGE.rglob("*.py")))
    names = [one for one in said if NAME.fullmatch(one) and not path_of(one).exists()]
    assert [one for one in names if one not in known] == []


@pytest.mark.parametrize(("file", "name"), BESIDE.findall(TEXT))
def test_a_file_defines_what_stands_beside_it(file: str, name: str) -> None:
    assert name in defined_in(path_of(file))


def test_every_compiled_module_stands_in_the_table_with_its_reason_and_gain() -> None:
    rows = ROW.findall(COMPILED)
    compiled = [str(Path(module).with_suffix(".py")) for module in find_sources(PACKAGE).modules]
    assert [module for module, _, _ in rows] == sorted(compiled)
    assert [module for module, _, gain in rows if not re.search(r"\d\.\d\d", gain)] == []
