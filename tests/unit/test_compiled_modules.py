"""Compiled modules are used only if all of them are there and match the sources."""

from __future__ import annotations

import json
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

import pytest

import flinknet
from flinknet import compiled_modules
from flinknet.compiled_modules import (
    COMPILED,
    EXTENSION_SUFFIX,
    IMPLEMENTATION,
    INTERPRETER,
    REASON,
    SourceFinder,
    find_sources,
    fingerprints,
    reason_for_pure,
    record_path,
)

PACKAGE = Path(flinknet.__file__).parent
OTHER_SUFFIX = ".cpython-39-x86_64-linux-gnu.so"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Make a package with two modules that look compiled, and one that is not to be compiled."""
    folder = tmp_path / "parcel"
    (folder / "inside").mkdir(parents=True)
    for name in ("__init__.py", "plain.py", "one.py", "inside/__init__.py", "inside/two.py"):
        (folder / name).write_text(f"NAME = {name!r}\n")
    for name in ("one", "inside/two"):
        (folder / f"{name}.pxd").write_text("# types\n")
        (folder / f"{name}{EXTENSION_SUFFIX}").write_text("no code")
    (folder / "shared.pxd").write_text("# for all\n")
    write_record(folder)
    return folder


def write_record(folder: Path) -> None:
    sources = fingerprints(folder, find_sources(folder).sources)
    record_path(folder).write_text(json.dumps({"sources": sources}))


# -- this very process


def test_it_is_one_or_the_other() -> None:
    assert bool(REASON) != COMPILED
    assert {True: "compiled", False: "pure"}[COMPILED] == IMPLEMENTATION


def test_the_interpreter_is_named_with_the_version_of_python() -> None:
    name, version = INTERPRETER.split()
    assert name.lower() == sys.implementation.name
    assert version.split(".")[:2] == [str(part) for part in sys.version_info[:2]]


def test_every_module_is_what_was_decided() -> None:
    """If modules are compiled, exactly those with a declaration are.

    No other module is an extension module.
    """
    modules = find_sources(PACKAGE).modules if COMPILED else []
    loaded = {
        name: Path(file).relative_to(PACKAGE).as_posix()
        for name, module in sys.modules.items()
        if isinstance(module, ModuleType)
        and name.startswith("flinknet.")
        and (file := getattr(module, "__file__", None))  # a module of PyFlink's names has none
    }
    extensions = {path for path in loaded.values() if not path.endswith(".py")}
    may_be = {module.rpartition(".")[0] + EXTENSION_SUFFIX for module in modules}
    assert extensions <= may_be
    assert not {module.rpartition(".")[0] + ".py" for module in modules} & {*loaded.values()}


def test_it_is_compiled_where_that_is_required() -> None:
    """A process that must test compiled modules does so, in continuous integration for example."""
    if os.environ.get("FLINKNET_COMPILE") == "required" and find_sources(PACKAGE).modules:
        assert REASON in ("", "FLINKNET_PURE=1")
    if os.environ.get("FLINKNET_PURE") == "1":
        assert not COMPILED


# -- finding modules


def test_what_is_compiled_has_a_declaration(package: Path) -> None:
    (package / f"one{OTHER_SUFFIX}").write_text("another interpreter's")
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "plain.pxd").write_text("")
    (package / "__init__.pxd").write_text("")
    found = find_sources(package)
    assert found.modules == ["one.py", "inside/two.py"]
    assert found.declarations == ["__init__.pxd", "one.pxd", "shared.pxd", "inside/two.pxd"]
    assert found.extensions == [f"one{EXTENSION_SUFFIX}", f"inside/two{EXTENSION_SUFFIX}"]


def test_a_module_may_have_a_form_for_c(package: Path) -> None:
    """This form is compiled in place of the plain one; a change of either makes it stale."""
    for name in ("plain", "one"):
        (package / f"{name}.pyx").write_text("# the same, typed\n")
    found = find_sources(package)
    assert found.modules == ["one.pyx", "plain.pyx", "inside/two.py"]
    assert found.plain_forms == ["one.py", "plain.py"]
    (package / f"plain{EXTENSION_SUFFIX}").write_text("no code")
    write_record(package)
    assert reason_for_pure(package, {}) == ""
    (package / "plain.py").write_text("NAME = 'changed'\n")
    assert reason_for_pure(package, {}).startswith("flinknet/plain.py has changed")


def test_each_interpreter_has_a_record_of_its_own() -> None:
    assert record_path(Path("parcel")).name.startswith("compiled_modules.")
    assert record_path(Path("parcel")).suffix == ".json"


# -- the decision


def test_all_of_the_sources_that_are_there_is_compiled(package: Path) -> None:
    assert reason_for_pure(package, {}) == ""
    assert reason_for_pure(package, {"FLINKNET_PURE": "0"}) == ""


def test_the_environment_asks_for_plain_python(package: Path) -> None:
    assert reason_for_pure(package, {"FLINKNET_PURE": "1"}) == "FLINKNET_PURE=1"


@pytest.mark.parametrize("source", ["one.py", "inside/two.py", "one.pxd", "shared.pxd"])
def test_a_source_that_has_changed_is_named(package: Path, source: str) -> None:
    (package / source).write_text("NAME = 'new'\n")
    assert (
        reason_for_pure(package, {})
        == f"flinknet/{source} has changed since it was compiled; run make compiled"
    )


def test_a_source_that_is_touched_has_not_changed(package: Path) -> None:
    os.utime(package / "one.py", (0, 0))
    assert reason_for_pure(package, {}) == ""


def test_what_is_not_compiled_may_change(package: Path) -> None:
    (package / "plain.py").write_text("NAME = 'new'\n")
    assert reason_for_pure(package, {}) == ""


def test_a_new_declaration_is_one_more_to_compile(package: Path) -> None:
    (package / "plain.pxd").write_text("")
    assert reason_for_pure(package, {}).startswith("flinknet/plain.pxd has come or gone")


def test_a_declaration_that_is_gone_is_missed(package: Path) -> None:
    (package / "shared.pxd").unlink()
    assert reason_for_pure(package, {}).startswith("flinknet/shared.pxd has come or gone")


def test_one_that_is_not_compiled_is_all(package: Path) -> None:
    (package / f"one{EXTENSION_SUFFIX}").rename(package / f"one{OTHER_SUFFIX}")
    assert (
        reason_for_pure(package, {})
        == f"flinknet/one{EXTENSION_SUFFIX} is missing; run make compiled"
    )


def test_what_was_compiled_of_a_source_that_is_plain_now_is_not_imported(package: Path) -> None:
    stray = f"plain{EXTENSION_SUFFIX}"
    (package / stray).write_text("no code")
    assert (
        reason_for_pure(package, {}) == f"flinknet/{stray} belongs to no source; run make compiled"
    )


def test_without_a_record_nothing_is_known(package: Path) -> None:
    record_path(package).unlink()
    assert reason_for_pure(package, {}) == "not compiled for this interpreter"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"sources": 7}', '{"sources": ["one"]}'])
def test_a_record_that_says_nothing_is_no_error(package: Path, text: str) -> None:
    record_path(package).write_text(text)
    assert reason_for_pure(package, {}).startswith("what was compiled cannot be told: ")


def test_without_declarations_there_is_nothing_to_compile(package: Path) -> None:
    for declaration in package.rglob("*.pxd"):
        declaration.unlink()
    assert reason_for_pure(package, {}) == "there is nothing to compile"


# -- the finder


def test_the_source_is_found_beside_what_was_compiled(package: Path) -> None:
    finder = SourceFinder("parcel")
    for name in ("one", "plain", "inside"):
        found = finder.find_spec(f"parcel.{name}", [str(package)])
        assert found is not None
        assert found.origin is not None
        assert found.origin.endswith(".py")
    found = PathFinder.find_spec("parcel.one", [str(package)])
    assert found is not None
    assert found.origin == str(package / f"one{EXTENSION_SUFFIX}")


def test_other_packages_are_not_looked_for(package: Path) -> None:
    finder = SourceFinder("parcel")
    assert finder.find_spec("parcel", None) is None
    assert finder.find_spec("parcels.one", [str(package)]) is None
    assert finder.find_spec("parcel.three", [str(package)]) is None


def test_a_module_may_come_later(package: Path) -> None:
    finder = SourceFinder("parcel")
    assert finder.find_spec("parcel.three", [str(package)]) is None
    (package / "three.py").write_text("")
    finder.invalidate_caches()
    assert finder.find_spec("parcel.three", [str(package)]) is not None


def test_it_is_installed_where_the_package_is_plain() -> None:
    installed = any(isinstance(finder, compiled_modules.SourceFinder) for finder in sys.meta_path)
    assert installed != COMPILED
