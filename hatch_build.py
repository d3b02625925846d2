"""Compiles flinknet's record path ahead of time, where that is possible.

The modules that are compiled are those with a ``.pxd`` beside them, or a ``.pyx``; at run time
``flinknet/compiled_modules.py`` decides whether they are used. hatchling calls the hook below for
wheels and editable installs, and ``python hatch_build.py`` brings what lies in this tree up to
date. What cannot be compiled is no error, because the same modules run as they are: one line says
so. In the environment, FLINKNET_PURE=1 compiles nothing, FLINKNET_COMPILE=required makes a failure
an error.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "flinknet"

if TYPE_CHECKING:
    from flinknet import compiled_modules
else:
    # Read as a file: to import the package takes libraries which a build does not have.
    _spec = importlib.util.spec_from_file_location(
        "compiled_modules", PACKAGE / "compiled_modules.py"
    )
    compiled_modules = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(compiled_modules)

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # `python hatch_build.py` needs no hatchling
    BuildHookInterface = object

DIRECTIVES = {
    "language_level": "3",
    "annotation_typing": False,  # the types of the .pxd count; annotations are for mypy
    "binding": True,
    "embedsignature": False,
}
COMPILER_ARGUMENTS = ["-O3", "-g0"]
_MODULE_S = 3
"""Processor time of Cython and the C compiler for a module, on average."""


class NotCompiledError(Exception):
    """Says in one line why; ``output`` is everything that the compilers said."""

    def __init__(self, reason: str, output: str) -> None:
        super().__init__(reason)
        self.output = output


def is_wanted() -> bool:
    """Whether there is anything to do in this environment."""
    return os.environ.get("FLINKNET_PURE") != "1"


def bring_up_to_date(folder: Path) -> list[Path]:
    """Have the compiled modules and their record in ``folder``, which may be the package itself.

    Return their paths relative to it, none if there is nothing to compile. What was compiled from
    the sources that are there is kept. If this fails nothing has changed.
    """
    found = compiled_modules.find_sources(PACKAGE)
    record = compiled_modules.record_path(folder)
    wanted = {
        "builder": compiled_modules.fingerprints(ROOT, ["hatch_build.py"])["hatch_build.py"],
        "sources": compiled_modules.fingerprints(PACKAGE, found.sources),
    }
    try:
        recorded = json.loads(record.read_text())
    except (OSError, ValueError):
        recorded = {}
    extensions = {module: _extension_of(module) for module in found.modules}
    if recorded != wanted or not all((folder / each).exists() for each in extensions.values()):
        modules = _out_of_date(folder, found, wanted, recorded)
        with tempfile.TemporaryDirectory(prefix="flinknet-compiled-") as temporary:
            if modules:
                _run_compiler(Path(temporary), modules)
            record.unlink(missing_ok=True)  # until all of it is in its place
            for module in modules:
                _move(Path(temporary, "flinknet", extensions[module]), folder / extensions[module])
    if folder.exists():
        for stray in {*compiled_modules.find_sources(folder).extensions}.difference(
            extensions.values()
        ):
            (folder / stray).unlink()
    if not found.modules:
        record.unlink(missing_ok=True)
        return []
    written = record.with_suffix(".new")
    written.write_text(json.dumps(wanted, indent=1))
    written.replace(record)
    return [*map(Path, extensions.values()), record.relative_to(folder)]


def _out_of_date(
    folder: Path,
    found: compiled_modules.CompiledSources,
    wanted: dict[str, Any],
    recorded: dict[str, Any],
) -> list[str]:
    """The modules to compile anew: all if a declaration has changed, which any may use."""
    present, before = wanted["sources"], recorded.get("sources", {})
    if recorded.get("builder") != wanted["builder"] or any(
        present.get(source) != before.get(source)
        for source in {*found.declarations, *before}
        if source.endswith(".pxd")
    ):
        return found.modules
    return [
        module
        for module in found.modules
        if present[module] != before.get(module) or not (folder / _extension_of(module)).exists()
    ]


def _extension_of(module: str) -> str:
    return module.rpartition(".")[0] + compiled_modules.EXTENSION_SUFFIX


def _move(source: Path, target: Path) -> None:
    """Put a file in its place at once: a process that runs keeps the one that it has loaded."""
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_suffix(".new")
    shutil.move(source, beside)
    beside.replace(target)


def _run_compiler(folder: Path, modules: list[str]) -> None:
    """In a process of its own, so that whatever goes wrong, and is printed, stays there.

    A line says beforehand that it takes long: pip shows it with -v.
    """
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if shutil.which(compiler.split()[0]) is None:
        raise NotCompiledError(f"there is no C compiler ({compiler.split()[0]})", "")
    print(
        f"flinknet: {len(modules)} modules are being compiled, {_processors()} at a time, which "
        f"takes some {_MODULE_S} s of processor time each; with FLINKNET_PURE=1 none is",
        file=sys.stderr,
        flush=True,
    )
    run = subprocess.run(
        [sys.executable, __file__, "--into", str(folder), *modules],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if run.returncode:
        lines = [line for line in run.stdout.splitlines() if line.strip()]
        raise NotCompiledError(lines[-1] if lines else f"exit code {run.returncode}", run.stdout)


def _processors() -> int:
    """Those that this process may use, which in a container may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def compile_into(folder: Path, modules: list[str]) -> None:
    """Run Cython and the C compiler; what they write on their way goes to ``folder``, too."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension

    os.chdir(ROOT)
    # The one that takes longest must not begin last, when the other processors have nothing to do.
    modules = sorted(modules, key=lambda module: -(PACKAGE / module).stat().st_size)
    extensions = [
        Extension(
            ".".join(["flinknet", *Path(module).with_suffix("").parts]),
            [f"flinknet/{module}"],
            extra_compile_args=COMPILER_ARGUMENTS,
        )
        for module in modules
    ]
    processors = _processors()
    distribution = Distribution(
        {
            "name": "flinknet",
            "ext_modules": cythonize(
                extensions,
                build_dir=str(folder / "c"),
                compiler_directives=DIRECTIVES,
                nthreads=processors,
            ),
        }
    )
    command = distribution.get_command_obj("build_ext")
    command.build_lib = str(folder)
    command.build_temp = str(folder / "objects")
    command.parallel = processors
    command.ensure_finalized()
    command.run()


def try_to_bring_up_to_date(folder: Path) -> list[Path]:
    """As ``bring_up_to_date``; a failure is one line, or an error if compiling is required."""
    if not is_wanted():
        return []
    try:
        return bring_up_to_date(folder)
    except (NotCompiledError, OSError) as error:
        if os.environ.get("FLINKNET_COMPILE") == "required":
            print(getattr(error, "output", ""), end="", file=sys.stderr)
            raise
        print(f"flinknet is not compiled, and runs as plain Python: {error}", file=sys.stderr)
        return []


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc, valid-type, unused-ignore]
    """What hatchling calls for each wheel; that of an editable install has only a path in it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, into the tree or into the wheel."""
        if version == "editable":
            try_to_bring_up_to_date(PACKAGE)
            return
        folder = ROOT / "build" / "compiled" / compiled_modules.EXTENSION_SUFFIX.strip(".")
        for path in try_to_bring_up_to_date(folder):
            build_data["force_include"][str(folder / path)] = f"flinknet/{path.as_posix()}"
            build_data["pure_python"] = False
            build_data["infer_tag"] = True


def main(arguments: list[str]) -> int:
    """Bring the tree up to date, or, called by itself, compile modules into a folder."""
    if arguments[:1] == ["--into"]:
        compile_into(Path(arguments[1]), arguments[2:])
        return 0
    try:
        try_to_bring_up_to_date(PACKAGE)
    except (NotCompiledError, OSError) as error:
        print(f"flinknet is not compiled: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
