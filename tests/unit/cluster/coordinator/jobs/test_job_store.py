"""The stored data of a coordinator's jobs."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinknet.cluster.coordinator.jobs.job_store import JobStore, StoredJob
from flinknet.errors import ConfigurationError, CoordinatorSupersededError
from tests.unit.checkpoint.checkpoints import change

JOB, OTHER = "0" * 32, "1" * 32


@pytest.fixture
def store(tmp_path: Path) -> Iterator[JobStore]:
    store = JobStore(tmp_path / "state")
    yield store
    store.close()


@pytest.mark.parametrize("durable", [True, False])
def test_stored_jobs_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    """With durable storage, data is on disk before it gets its name."""
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    store = JobStore(tmp_path, durable=durable)
    assert store.load() == []
    store.write_job(JOB, b"job", {"attempt": 0})
    store.write_state(JOB, {"attempt": 1})
    assert store.load() == [StoredJob(JOB, b"job", {"attempt": 1}, {})]
    store.write_submission(JOB, b"shape")
    assert store.load() == [StoredJob(JOB, b"shape", {"attempt": 1}, {})]
    store.close()
    assert len(synced) == (10 if durable else 0)


def test_the_last_result_of_a_subtask_counts(store: JobStore) -> None:
    store.write_job(JOB, b"job", {})
    for attempt in (9, 10, 2):
        store.write_results(JOB, attempt, {(0, 1): b"%d" % attempt, (2, 0): b"both"})
    store.write_results(JOB, 2, {(1, 0): b"two"})
    (stored,) = store.load()
    assert stored.results == {(0, 1): b"10", (1, 0): b"two", (2, 0): b"both"}
    store.remove_results(JOB)
    (stored,) = store.load()
    assert stored.results == {}


def test_of_results_in_one_attempt_the_last_one_counts_and_the_others_stay(tmp_path: Path) -> None:
    """A part of the attempt has restarted, and another coordinator has continued in between."""
    for last in range(12):
        store = JobStore(tmp_path)
        store.load()
        if not last:
            store.write_job(JOB, b"job", {})
        store.write_results(JOB, 0, {(0, 0): b"%d" % last, (1, last): b"other"})
        (stored,) = store.load()
        store.close()
        others = {(1, index): b"other" for index in range(last + 1)}
        assert stored.results == {(0, 0): b"%d" % last, **others}


def test_only_the_owner_can_read_the_files(store: JobStore, tmp_path: Path) -> None:
    store.write_job(JOB, b"job", {})
    store.write_results(JOB, 0, {(0, 0): b"result"})
    paths = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    assert len(paths) == 5
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o600}
    assert (tmp_path / "state" / "jobs" / JOB).stat().st_mode & 0o777 == 0o700


def test_unacknowledged_and_forgotten_jobs_are_removed(store: JobStore, tmp_path: Path) -> None:
    store.write_job(JOB, b"job", {})
    store.remove(JOB)
    store.remove(JOB)
    store.write_job(JOB, b"job", {})
    (tmp_path / "state" / "jobs" / JOB / "state").unlink()
    assert store.load() == []
    assert not (tmp_path / "state" / "jobs" / JOB).exists()


@pytest.mark.parametrize("name", ["submission", "state", "results-0-0"])
@pytest.mark.parametrize("how", ["torn", "a bit"])
def test_a_damaged_file_is_named_and_the_other_jobs_go_on(
    store: JobStore, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, how: str
) -> None:
    for job_id in (JOB, OTHER):
        store.write_job(job_id, b"job", {})
        store.write_results(job_id, 0, {(0, 0): b"result"})
    damaged = tmp_path / "state" / "jobs" / JOB / name
    change(damaged, how)
    with caplog.at_level(logging.ERROR):
        assert [stored.job_id for stored in store.load()] == [OTHER]
    assert f"job {JOB} is not resumed: {damaged}" in caplog.text
    assert damaged.exists(), "somebody may want to look"


def test_a_foreign_file_is_refused(
    store: JobStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.write_job(JOB, b"job", {})
    job = tmp_path / "state" / "jobs" / JOB
    (job / "submission").write_bytes((job / "state").read_bytes())
    (tmp_path / "state" / "jobs" / "notes").mkdir()
    store.write_job(OTHER, b"job", {})
    (tmp_path / "state" / "jobs" / OTHER / "state").write_bytes(b"flinkchk" + bytes(40))
    with caplog.at_level(logging.ERROR):
        assert store.load() == []
    assert "notes is not the directory of a job: it is left unchanged" in caplog.text
    assert f"{job}/submission contains no job" in caplog.text
    assert "it does not begin with b'flinkjob'" in caplog.text
    assert (tmp_path / "state" / "jobs" / "notes").exists()


def test_two_coordinators_do_not_share_a_directory(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    with pytest.raises(ConfigurationError, match="another coordinator uses "):
        JobStore(tmp_path)
    store.close()
    JobStore(tmp_path).close()


def test_a_state_directory_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot keep its jobs in .*file"):
        JobStore(tmp_path / "file")


def test_a_failed_write_leaves_the_old_file(store: JobStore, tmp_path: Path) -> None:
    store.write_job(JOB, b"job", {"attempt": 0})
    (tmp_path / "state" / "jobs" / JOB / ".state.unfinished").mkdir()
    with pytest.raises(OSError, match="unfinished"):
        store.write_state(JOB, {"attempt": 1})
    (stored,) = store.load()
    assert stored.state == {"attempt": 0}


def test_a_coordinator_whose_directory_is_taken_over_writes_and_removes_nothing(
    tmp_path: Path,
) -> None:
    """Its lock is lost, as the directory could not have been taken over otherwise."""
    old = JobStore(tmp_path)
    old.write_job(JOB, b"job", {"attempt": 0})
    old.write_results(JOB, 0, {(0, 0): b"result"})
    (tmp_path / "lock").unlink()
    new = JobStore(tmp_path)
    before = new.load()
    for write in (
        lambda: old.write_job(OTHER, b"job", {}),
        lambda: old.write_submission(JOB, b"other"),
        lambda: old.write_state(JOB, {"attempt": 1}),
        lambda: old.write_results(JOB, 0, {(0, 1): b"other"}),
        lambda: old.remove_results(JOB),
        lambda: old.remove(JOB),
    ):
        with pytest.raises(CoordinatorSupersededError, match="epoch 1, is superseded"):
            write()
    assert new.load() == before
    new.write_state(JOB, {"attempt": 2})
    assert new.load() == [StoredJob(JOB, b"job", {"attempt": 2}, {(0, 0): b"result"})]
    for store in (old, new):
        store.close()
