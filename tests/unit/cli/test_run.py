"""``flinknet run``: its end when no job runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from flinknet.cli.run import EXIT_INTERRUPTED, run
from flinknet.errors import ConfigurationError, JobFileError

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a job file with these lines."""

    def made(text: str) -> Path:
        file = tmp_path / "job.py"
        file.write_text(text)
        return file

    return made


def test_a_file_without_a_job_is_refused(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigurationError, match=r"job\.py"):
        run(write("print('hello')"))
    assert capsys.readouterr().out == "hello\n"


def test_an_error_of_the_file_is_in_the_json(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file's output goes to standard error, so standard output has only the document."""
    file = write("print('hello')\nraise ValueError('no \\x1b[2J input')")
    with pytest.raises(JobFileError, match="input"):
        run(file, as_json=True)
    shown, aside = capsys.readouterr()
    document = json.loads(shown)
    assert document["jobs"] == []
    assert document["error"]["type"] == "JobFileError"
    assert "\x1b" not in document["error"]["message"]
    assert aside == "hello\n"


def test_ctrl_c_has_its_own_exit_status(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        run(write("raise KeyboardInterrupt"))
    assert exit_.value.code == EXIT_INTERRUPTED
    assert capsys.readouterr().err == "interrupted: the cluster has been stopped\n"


def test_the_configuration_names_the_launcher(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINKNET_CLUSTER_LAUNCHER", "nowhere")
    file = write(
        "from flinknet.datastream import StreamExecutionEnvironment\n"
        "environment = StreamExecutionEnvironment.get_execution_environment()\n"
        "environment.from_collection([1]).print()\n"
        "environment.execute()\n"
    )
    with pytest.raises(ConfigurationError, match='cluster.launcher is "nowhere".* one of local,'):
        run(file)


def test_an_invalid_configuration_is_refused_before_the_file_runs(write: Write) -> None:
    with pytest.raises(ConfigurationError, match="workers is -1"):
        run(write("raise AssertionError('it ran')"), workers=-1)
