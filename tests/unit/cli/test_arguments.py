"""Arguments that the commands for job files share."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinknet.cli.arguments import cluster_config, output_redirected
from flinknet.cli.main import main
from flinknet.errors import ConfigurationError


def test_the_output_of_a_job_file_stays_out_of_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    with output_redirected(as_json=True):
        print("a line of the job's")
    with output_redirected(as_json=False):
        print("another")
    assert capsys.readouterr() == ("another\n", "a line of the job's\n")


def test_flags_come_before_the_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text("[cluster]\nworkers = 3\nslots_per_worker = 3\n")
    monkeypatch.setenv("FLINKNET_CLUSTER_SLOTS_PER_WORKER", "4")
    cluster = cluster_config(file, None, None, "asyncio").cluster
    assert (cluster.workers, cluster.slots_per_worker, cluster.event_loop) == (3, 4, "asyncio")
    assert cluster_config(file, 5, 6, None).cluster.slots_per_worker == 6


def test_an_invalid_flag_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="workers is -1"):
        cluster_config(None, -1, None, None)


def test_the_environment_may_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, workers in (("named.toml", 3), ("flag.toml", 4)):
        (tmp_path / name).write_text(f"[cluster]\nworkers = {workers}\n")
    monkeypatch.setenv("FLINKNET_CONFIG", str(tmp_path / "named.toml"))
    assert cluster_config(None, None, None, None).cluster.workers == 3
    assert cluster_config(tmp_path / "flag.toml", None, None, None).cluster.workers == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--wrokers", "4", "job.py"), "No such option: --wrokers. Did you mean --workers?"),
        (("--speed", "4", "job.py"), "No such option: --speed. Options of the job follow JOB.py."),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_an_unknown_option_before_the_job_file_is_misuse(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as exit_:
        main(("explain", *arguments))
    assert exit_.value.code == 2
    assert said in capsys.readouterr().err


def test_a_likely_misspelt_option_is_passed_on_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.py"
    job.write_text("import sys; print(sys.argv[1:]); sys.exit(7)")
    with pytest.raises(SystemExit) as exit_:
        main(("explain", str(job), "--n", "5", "--worker=3"))
    assert exit_.value.code == 7
    assert capsys.readouterr() == (
        "['--n', '5', '--worker=3']\n",
        "flinknet: --worker=3 goes to the job file; did you mean flinknet's --workers?\n",
    )
