"""The command line: its output, its errors, and the modules that it must not import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer

import flinknet
from flinknet.cli.lazy_group import LazyGroup, add_command
from flinknet.cli.main import main
from flinknet.errors import FlinknetError, JobFailedError, SerializationError


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("FLINKNET_TRACEBACK", raising=False)


def exit_code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


# -- the root command


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("", "(compiled, CPython 3.11.7)"),
        ("FLINKNET_PURE=1", "(pure, CPython 3.11.7: FLINKNET_PURE=1)"),
    ],
)
def test_version_says_what_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, reason: str, said: str
) -> None:
    monkeypatch.setattr("flinknet.cli.main.IMPLEMENTATION", "pure" if reason else "compiled")
    monkeypatch.setattr("flinknet.cli.main.REASON", reason)
    monkeypatch.setattr("flinknet.cli.main.INTERPRETER", "CPython 3.11.7")
    assert exit_code("--version") == 0
    assert capsys.readouterr().out == f"flinknet {flinknet.__version__} {said}\n"


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_names_the_commands(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert exit_code(option) == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in ("run", "explain", "demo", "config"))


def test_an_unknown_command_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("rnu") == 2
    assert "rnu" in capsys.readouterr().err


def test_help_imports_no_optional_library() -> None:
    program = (
        "import sys\n"
        "from flinknet.cli.main import main\n"
        "optional = {'pyspark', 'pyarrow', 'pandas', 'numpy', 'matplotlib', 'aiohttp'}\n"
        "try:\n"
        "    main(['--help'])\n"
        "finally:\n"
        "    assert not optional & set(sys.modules), optional & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("command", ["run", "explain", "demo", "config", "checkpoints", "stop"])
def test_help_wraps_and_cuts_nothing_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert exit_code(command, "-h") == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown


def test_the_package_is_the_command() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "flinknet", "-h"], capture_output=True, text=True, check=True
    )
    assert run.stdout.startswith("Usage: flinknet [OPTIONS] COMMAND")


# -- errors


class Failing:
    """A command line with one command that raises ``error``, in a module of its own."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = tmp_path / "failing_commands.py"
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "failing_commands", raising=False)
        self.group = typer.Typer(cls=LazyGroup, pretty_exceptions_enable=False)
        self.group.callback()(lambda: None)
        add_command(self.group, "work", "failing_commands", "Work.")
        monkeypatch.setattr("flinknet.cli.main.app", self.group)

    def write(self, body: str) -> None:
        self._path.write_text(f"from flinknet.errors import *\n\n{body}\n")


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Failing:
    return Failing(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("error", "code"), [(SerializationError, 2), (JobFailedError, 1), (FlinknetError, 2)]
)
def test_an_error_is_one_line_and_an_exit_code(
    failing: Failing, capsys: pytest.CaptureFixture[str], error: type[Exception], code: int
) -> None:
    failing.write(f"def work(): raise {error.__name__}('map: cannot write a set')")
    assert exit_code("work") == code
    assert capsys.readouterr() == ("", "flinknet: map: cannot write a set\n")


def test_a_file_that_may_not_be_written_is_one_line(
    failing: Failing, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An example is the shell's own file, written by --install-completion, in a read-only home."""
    failing.write("def work(): raise PermissionError(13, 'Permission denied', '/home/me/.bashrc')")
    assert exit_code("work") == 2
    assert capsys.readouterr() == ("", "flinknet: Permission denied: /home/me/.bashrc\n")
    monkeypatch.setenv("FLINKNET_TRACEBACK", "1")
    with pytest.raises(PermissionError):
        exit_code("work")


def test_a_file_on_a_read_only_file_system_is_one_line(
    failing: Failing, capsys: pytest.CaptureFixture[str]
) -> None:
    failing.write("def work(): raise OSError(30, 'Read-only file system', '/home/me/.bashrc')")
    assert exit_code("work") == 2
    assert capsys.readouterr().err == "flinknet: Read-only file system: /home/me/.bashrc\n"


def test_another_error_of_a_file_is_a_bug(failing: Failing) -> None:
    failing.write("def work(): raise OSError(5, 'Input/output error', '/home/me/.bashrc')")
    with pytest.raises(OSError, match="Input/output error"):
        exit_code("work")


def test_a_failed_installation_of_the_completion_points_to_its_script(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: str) -> None:
        raise PermissionError(13, "Permission denied", "/home/me/.bashrc")

    monkeypatch.setattr("typer.completion.install", refuse)
    assert exit_code("--install-completion") == 2
    assert capsys.readouterr().err == (
        "flinknet: Permission denied: /home/me/.bashrc\n"
        "--show-completion prints the script to add there.\n"
    )


@pytest.mark.parametrize("verbose", ["0", "1"])
def test_an_error_does_not_rule_the_terminal(
    failing: Failing,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    verbose: str,
) -> None:
    """Its line breaks stay, as a remote traceback has many."""
    monkeypatch.setenv("FLINKNET_TRACEBACK", verbose)
    failing.write(r"def work(): raise JobFailedError('\x1b[2J\ud800\nsecond line')")
    assert exit_code("work") == 1
    shown = capsys.readouterr().err
    assert shown.endswith("flinknet: \\x1b[2J\\ud800\nsecond line\n")
    assert "\x1b" not in shown


def test_the_environment_asks_for_the_traceback(
    failing: Failing, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINKNET_TRACEBACK", "1")
    failing.write("def work(): raise JobFailedError('lost')")
    assert exit_code("work") == 1
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert shown.endswith("flinknet: lost\n")


def test_verbose_asks_for_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--verbose", "config", "show", "--config", "none.toml") == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert "cannot read the configuration file none.toml" in shown.splitlines()[-1]


def test_a_bug_is_not_hidden(failing: Failing) -> None:
    failing.write("def work(): raise AssertionError('credit below zero')")
    with pytest.raises(AssertionError, match="credit below zero"):
        main(["work"])


def test_ctrl_c_is_130(failing: Failing) -> None:
    failing.write("def work(): raise KeyboardInterrupt")
    assert exit_code("work") == 130


# -- commands in other modules


def test_a_command_gets_its_arguments_as_written(
    failing: Failing, capsys: pytest.CaptureFixture[str]
) -> None:
    failing.write(
        "def work(job: str, rest: list[str], workers: int = 2): print(job, workers, rest)"
    )
    assert exit_code("work", "--workers", "4", "job.py", "--", "--workers", "-x") == 0
    assert capsys.readouterr().out == "job.py 4 ['--workers', '-x']\n"


def test_a_command_shows_its_own_help(failing: Failing, capsys: pytest.CaptureFixture[str]) -> None:
    failing.write('def work(workers: int = 2):\n    """Work hard."""')
    assert exit_code("work", "--help") == 0
    shown = capsys.readouterr().out
    assert "Work hard." in shown
    assert "--workers" in shown
    assert "flinknet work" in shown


def test_a_command_refuses_unknown_options(
    failing: Failing, capsys: pytest.CaptureFixture[str]
) -> None:
    failing.write("def work(workers: int = 2): pass")
    assert exit_code("work", "--wrokers", "4") == 2
    assert "--wrokers" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "certs", "cluster", "config", "checkpoints", "top"])
def test_only_the_root_command_offers_completion(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("--help") == 0
    assert "--install-completion" in capsys.readouterr().out
    assert exit_code(command, "--help") == 0
    assert "-completion" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "default"),
    [
        ("run", "Default: each job gets a cluster of its own."),
        ("jobs", "otherwise the cluster `default` of this machine."),
    ],
)
def test_the_help_states_the_default_cluster_of_the_command(
    command: str, default: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(command, "--help") == 0
    assert default in " ".join(capsys.readouterr().out.split())
