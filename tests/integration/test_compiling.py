"""A module is compiled, used, and ignored once its source has changed.

Each test works in a copy of the tree in which one small module is marked for compilation.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from flinknet.compiled_modules import EXTENSION_SUFFIX, record_path

ROOT = Path(__file__).parents[2]
MODULE = "flinknet/version.py"
"""The smallest module; a larger one takes twice as long to compile."""
EXTENSION = MODULE.removesuffix(".py") + EXTENSION_SUFFIX
RECORD = f"flinknet/{record_path(Path()).name}"
DEPLOY = "flinknet/deploy/"
SAID = re.compile(r"flinknet: 1 modules are being compiled, \d+ at a time, .* FLINKNET_PURE=1 .*\n")
"""The notice that precedes the long compilation."""
COMPILER = (sysconfig.get_config_var("CC") or "cc").split()[0]

pytestmark = pytest.mark.xdist_group("compiling")
needs_compiler = pytest.mark.skipif(
    shutil.which(COMPILER) is None, reason=f"there is no C compiler: {COMPILER}"
)


class Tree:
    """A copy of the tree, and the commands that run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        ignored = shutil.ignore_patterns(
            "__pycache__", "*.so", "*.pxd", "*.pyx", "compiled_modules.*.json"
        )
        shutil.copytree(ROOT / "flinknet", folder / "flinknet", ignore=ignored)
        for name in ("hatch_build.py", "pyproject.toml", "README.md", "LICENSE", ".gitignore"):
            shutil.copy(ROOT / name, folder)
        shutil.copytree(ROOT / "deploy", folder / "deploy")
        self.module = folder / MODULE
        self.module.with_suffix(".pxd").write_text("# nothing is typed\n")

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run Python with the copy's package."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in ("FLINKNET_PURE", "FLINKNET_COMPILE")
        }
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**inherited, "PYTHONPATH": str(self.folder), **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def compile(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("hatch_build.py", **environment)

    def file_in_use(self, **environment: str) -> str:
        """Return the file from which a new process loads the module."""
        program = "import flinknet.version as module; print(module.__file__)"
        run = self.run("-c", program, **environment)
        assert run.stderr == ""
        return Path(run.stdout.strip()).relative_to(self.folder).as_posix()

    def version(self, **environment: str) -> str:
        run = self.run("-m", "flinknet.cli", "--version", **environment)
        assert run.stderr == ""
        return run.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A copy in which nothing is compiled."""
    return Tree(tmp_path)


@pytest.fixture(scope="module")
def shared_tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return Tree(tmp_path_factory.mktemp("compiled"))


@pytest.fixture
def compiled(shared_tree: Tree) -> Iterator[Tree]:
    """A copy with the compiled module; changes of its source are undone after the test."""
    run = shared_tree.compile(FLINKNET_COMPILE="required")
    assert (run.returncode, run.stdout) == (0, "")
    # if an earlier test changed nothing relevant, nothing is compiled
    assert run.stderr == "" or SAID.fullmatch(run.stderr)
    source = shared_tree.module.read_bytes()
    yield shared_tree
    shared_tree.module.write_bytes(source)


@needs_compiler
def test_compiled_modules_are_used(compiled: Tree) -> None:
    assert compiled.file_in_use() == EXTENSION
    assert re.fullmatch(r"flinknet \S+ \(compiled, CPython \S+\)", compiled.version())


@needs_compiler
def test_the_environment_asks_for_plain_python(compiled: Tree) -> None:
    assert compiled.file_in_use(FLINKNET_PURE="1") == MODULE
    assert compiled.version(FLINKNET_PURE="1").endswith(": FLINKNET_PURE=1)")


@needs_compiler
def test_no_compiled_module_replaces_a_changed_source(compiled: Tree) -> None:
    with compiled.module.open("a") as source:
        source.write("\nprint('edited')\n")
    assert "edited" in compiled.run("-c", "import flinknet").stdout
    changed = f"{MODULE} has changed since it was compiled; run make compiled"
    assert compiled.version().endswith(f": {changed})")


@needs_compiler
def test_only_changed_modules_are_compiled_again(compiled: Tree) -> None:
    extension = compiled.folder / EXTENSION
    compiled_at = extension.stat().st_mtime_ns
    assert compiled.compile().stderr == ""
    assert extension.stat().st_mtime_ns == compiled_at
    with compiled.module.open("a") as source:
        source.write("\nADDED = 7\n")
    assert SAID.fullmatch(compiled.compile().stderr)
    assert extension.stat().st_mtime_ns > compiled_at
    assert compiled.file_in_use() == EXTENSION


@needs_compiler
def test_a_module_that_is_no_longer_compiled_is_removed(tree: Tree) -> None:
    assert tree.compile(FLINKNET_COMPILE="required").returncode == 0
    tree.module.with_suffix(".pxd").unlink()
    assert tree.compile().stderr == ""
    assert not (tree.folder / EXTENSION).exists()
    assert not (tree.folder / RECORD).exists()
    assert tree.version().endswith(": there is nothing to compile)")


@needs_compiler
def test_an_error_in_a_source_is_one_line_and_the_package_runs(tree: Tree) -> None:
    tree.module.with_suffix(".pxd").write_text("cdef nonsense nonsense\n")
    run = tree.compile()
    assert run.returncode == 0
    said, why = run.stderr.splitlines(keepends=True)
    assert SAID.fullmatch(said)
    assert why.startswith("flinknet is not compiled, and runs as plain Python: ")
    assert tree.file_in_use() == MODULE


def test_without_a_compiler_one_line_says_so_and_the_package_runs(tree: Tree) -> None:
    run = tree.compile(PATH=str(tree.folder), CC="no-compiler")
    assert run.returncode == 0
    [line] = run.stderr.splitlines()
    assert line.startswith("flinknet is not compiled, and runs as plain Python: ")
    assert "no-compiler" in line
    assert tree.file_in_use() == MODULE
    assert tree.version().endswith(": not compiled for this interpreter)")


def test_without_a_compiler_it_is_an_error_if_compiling_is_required(tree: Tree) -> None:
    run = tree.compile(PATH=str(tree.folder), CC="no-compiler", FLINKNET_COMPILE="required")
    assert run.returncode == 1
    assert "no-compiler" in run.stderr


def test_nothing_is_compiled_if_the_environment_says_so(tree: Tree) -> None:
    run = tree.compile(FLINKNET_PURE="1", FLINKNET_COMPILE="required")
    assert (run.returncode, run.stderr) == (0, "")
    assert not (tree.folder / EXTENSION).exists()


# -- wheels and source distributions


def built(tree: Tree, target: str, folder: Path, **environment: str) -> Path:
    run = tree.run("-m", "hatchling", "build", "-t", target, "-d", str(folder), **environment)
    assert run.returncode == 0, run.stderr
    (file,) = folder.iterdir()
    return file


def compiled_in(names: Iterable[str]) -> set[str]:
    """Return the compiled modules of an archive, and their record."""
    built = (name for name in names if not name.startswith(DEPLOY))
    return {name for name in built if name.endswith((".so", ".json"))}


@needs_compiler
def test_a_wheel_has_its_compiled_modules(compiled: Tree, tmp_path: Path) -> None:
    stale = compiled.folder / MODULE.replace(".py", ".cpython-39-x86_64-linux-gnu.so")
    stale.write_text("another interpreter's")
    wheel = built(compiled, "wheel", tmp_path / "dist", FLINKNET_COMPILE="required")
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{version}-{version}-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "installed")
    assert compiled_in(names) == {EXTENSION, RECORD}
    assert MODULE in names
    assert MODULE.replace(".py", ".pxd") in names
    # -P keeps the working directory, which has a package of the same name, off the path
    program = "import flinknet.version as module; print(module.__file__)"
    run = compiled.run("-P", "-c", program, PYTHONPATH=str(tmp_path / "installed"))
    assert run.stdout.strip() == str(tmp_path / "installed" / EXTENSION)


@needs_compiler
def test_a_wheel_without_compiled_modules_fits_every_platform(
    compiled: Tree, tmp_path: Path
) -> None:
    wheel = built(compiled, "wheel", tmp_path, FLINKNET_PURE="1")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert not compiled_in(names)
        assert "flinknet/deploy/cluster.toml" in names, "what the command line's help refers to"


@needs_compiler
def test_a_source_distribution_has_the_sources_for_compiling(
    compiled: Tree, tmp_path: Path
) -> None:
    with tarfile.open(built(compiled, "sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"hatch_build.py", MODULE, MODULE.replace(".py", ".pxd")} <= names
    assert not {name for name in names if name.endswith(".so")} | ({RECORD} & names)
