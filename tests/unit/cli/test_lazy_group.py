"""Commands are imported when they are called or completed, and say which extra they lack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from flinknet.cli.lazy_group import LazyGroup, add_command
from flinknet.errors import ConfigurationError


def group_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> typer.Typer:
    """A command line with one command, ``work``, whose module has this body."""
    (tmp_path / "lazy_work.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "lazy_work", raising=False)
    group = typer.Typer(cls=LazyGroup, rich_markup_mode=None)
    group.callback()(lambda: None)
    add_command(
        group, "work", "lazy_work", "Work hard.", passes_options_on="rest" in body, extra="spark"
    )
    return group


def test_help_imports_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = group_of(tmp_path, monkeypatch, "raise AssertionError('imported')")
    with pytest.raises(SystemExit):
        group(["--help"])
    assert "Work hard." in capsys.readouterr().out


def test_unknown_options_are_passed_on_where_they_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "def work(job: str, rest: list[str], workers: int = 2): print(job, workers, rest)"
    group = group_of(tmp_path, monkeypatch, body)
    with pytest.raises(SystemExit) as exit_:
        group(["work", *["job.py", "--n", "5", "--workers", "3", "-x", "--", "--workers", "4"]])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == "job.py 3 ['--n', '5', '-x', '--workers', '4']\n"


def test_a_missing_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    group = group_of(tmp_path, monkeypatch, "import numpy.linalg")
    said = r'needs numpy, and what else the extra spark brings: run pip install "flinknet\[spark\]"'
    with pytest.raises(ConfigurationError, match=said):
        group(["work"])


def test_any_other_missing_module_is_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = group_of(tmp_path, monkeypatch, "import no_such_module")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        group(["work"])


# -- the completion of shells


def completed(line: str, shell: str) -> list[str]:
    """What a shell is told to offer for a command line, in the protocol of its script."""
    words = line.split(" ")
    variables = {
        "_FLINKNET_COMPLETE": f"complete_{shell}",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    run = subprocess.run(
        [sys.executable, "-m", "flinknet"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    return run.stdout.splitlines()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_their_options(shell: str) -> None:
    (found,) = [line for line in completed("flinknet expl", shell) if "explain" in line]
    assert ("memory" in found) == (shell != "bash"), "zsh and fish show what it is for, too"
    options = completed("flinknet run job.py --wor", shell)
    assert any("--workers" in line for line in options)
    assert not any("--slots" in line for line in options)


def test_bash_completes_with_the_script_that_is_shown(tmp_path: Path) -> None:
    """A real bash, as it would after --install-completion."""
    command = tmp_path / "flinknet"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flinknet "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }
    typed = (
        'eval "$(flinknet --show-completion bash)"\n'
        "COMP_WORDS=(flinknet checkpoints ver); COMP_CWORD=2\n"
        '_flinknet_completion flinknet; printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    shell = subprocess.run(
        ["bash", "--norc", "-c", typed],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (shell.stdout.split(), shell.stderr) == (["verify"], "")
