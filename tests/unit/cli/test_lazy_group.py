"""Commands are imported when they are called or completed, and name the extra that they lack."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest
import typer

from flinknet.cli.lazy_group import LazyGroup, add_command
from flinknet.errors import ConfigurationError


def group_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> typer.Typer:
    """Make a command line with one command, ``work``, in a module with this body."""
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
    said = r'needs numpy and other packages of the extra spark: run pip install "flinknet\[spark\]"'
    with pytest.raises(ConfigurationError, match=said):
        group(["work"])


def test_any_other_missing_module_is_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = group_of(tmp_path, monkeypatch, "import no_such_module")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        group(["work"])


# -- the completion of shells


def completed(line: str, shell: str) -> list[str]:
    """Return the completions of a command line, by the protocol of the shell's script."""
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


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Make an environment of a shell with a command ``flinknet``."""
    command = tmp_path / "flinknet"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m flinknet "$@"\n')
    command.chmod(0o755)
    return {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }


SCRIPTS = {
    "bash": (
        'eval "$(flinknet --show-completion bash)"\n'
        "COMP_WORDS=(flinknet checkpoints ver); COMP_CWORD=2\n"
        '_flinknet_completion flinknet; printf "%s\\n" "${COMPREPLY[@]}"\n'
    ),
    "fish": (
        "flinknet --show-completion fish | source\n"
        'complete --do-complete "flinknet checkpoints ver"\n'
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_shells_complete_with_the_script_that_is_shown(
    name: str, installed: dict[str, str]
) -> None:
    """A real shell runs the script, as after --install-completion."""
    shell = subprocess.run(
        [path_of(name), *(["--norc"] if name == "bash" else ["--no-config"]), "-c", SCRIPTS[name]],
        env=installed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert shell.stderr == ""
    assert shell.stdout.split()[:1] == ["verify"]


def test_zsh_completes_a_typed_command(installed: dict[str, str]) -> None:
    """It completes only at a terminal, so the test gives it one."""
    zsh, (terminal, its_end) = path_of("zsh"), pty.openpty()
    shell = subprocess.Popen(
        [zsh, "--no-rcs", "--interactive"],
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        env={**installed, "TERM": "dumb"},
        start_new_session=True,
    )
    os.close(its_end)
    try:
        os.write(
            terminal,
            b"autoload -Uz compinit; compinit -u\n"
            b'eval "$(flinknet --show-completion zsh)"; print "re""ady"\n',
        )
        read_until(terminal, "ready")
        os.write(terminal, b"flinknet checkpoints ver\t")
        read_until(terminal, "verify")
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


def path_of(shell: str) -> str:
    """Return the path of a shell, or skip the test without it."""
    found = which(shell)
    if found is None:
        pytest.skip(f"there is no {shell} here (Debian: apt-get install {shell})")
    return found


def read_until(terminal: int, text: str) -> None:
    """Read output until it contains the text; a shell that ends before is an OSError."""
    shown = ""
    while text not in shown:
        shown += os.read(terminal, 4096).decode(errors="replace")
