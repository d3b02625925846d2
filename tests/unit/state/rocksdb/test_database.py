"""The database of an operator, and the errors of its failures."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from flinknet.config.state import StateConfig
from flinknet.errors import StateError
from flinknet.state.rocksdb.database import Database, StateRows

STATE = 'state "count" of operator "Count"'
WHOSE = 'operator "Count" (uid count)'
SMALL = StateConfig(rocksdb_write_buffer_bytes=65536)


def test_stored_entries_are_found_until_they_are_removed(tmp_path: Path) -> None:
    database = Database(tmp_path / "one", WHOSE, StateConfig())
    stored = StateRows(database, "count")
    stored.put(b"a", b"1")
    stored.put_all([(b"b", b"2"), (b"c", b"3")])
    assert [stored.get(key) for key in (b"a", b"b", b"d")] == [b"1", b"2", None]
    stored.delete(b"b")
    assert stored.get(b"b") is None
    assert database.rows_written == 3
    database.close()
    database.close()
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_shows_what_was_stored_when_it_was_made(tmp_path: Path) -> None:
    """This also holds if it is iterated only after the files were rewritten."""
    database = Database(tmp_path / "one", WHOSE, SMALL)
    stored = StateRows(database, "count")
    rows = [(number.to_bytes(4, "big"), bytes(100)) for number in range(5000)]
    stored.put_all(rows)
    snapshot = stored.snapshot()
    stored.put_all([(key, b"later") for key, _ in rows])
    stored.put(b"\xff", b"new")
    stored.delete(rows[0][0])
    assert list(stored.iterate(snapshot)) == rows
    assert list(stored.iterate(snapshot)) == rows, "as often as wanted"
    assert list(stored.iterate(snapshot, rows[4998][0])) == rows[4998:]
    del snapshot
    database.close()


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda one: one.get(b"a"), "read"),
        (lambda one: one.put(b"a", b""), "written"),
        (lambda one: one.put_all([(b"a", b"")]), "written"),
        (lambda one: one.delete(b"a"), "written"),
        (lambda one: one.snapshot(), "read"),
    ],
    ids=["get", "put", "put_all", "delete", "snapshot"],
)
def test_a_database_that_is_gone_is_named(tmp_path: Path, call: object, what: str) -> None:
    database = Database(tmp_path / "one", WHOSE, StateConfig())
    stored = StateRows(database, "count")
    database.close()
    with pytest.raises(StateError, match=rf"{STATE} .*be {what} .*in {tmp_path}/one"):
        call(stored)  # type: ignore[operator]


def test_a_place_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    with pytest.raises(StateError, match=r"cannot be opened .*/file/one: .*rocksdb_directory"):
        Database(tmp_path / "file" / "one", WHOSE, StateConfig())


def test_a_disk_without_room_is_said_by_a_later_write(tmp_path: Path) -> None:
    """Data is written to a file in the background.

    If that fails, the next writes raise the error.
    """
    database = Database(tmp_path / "one", WHOSE, SMALL)
    stored = StateRows(database, "count")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
    try:
        with pytest.raises(StateError, match=rf"{STATE} .*be written .*{tmp_path}.*too large"):
            for number in range(1_000_000):
                stored.put(number.to_bytes(4, "big") * 50, number.to_bytes(4, "big") * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    database.close()
    assert list(tmp_path.iterdir()) == []


def test_files_that_were_damaged_are_named(tmp_path: Path) -> None:
    database = Database(tmp_path / "one", WHOSE, SMALL)
    stored = StateRows(database, "count")
    for number in range(20_000):
        stored.put(number.to_bytes(4, "big"), bytes(100))
    files = sorted((tmp_path / "one" / "db").glob("*.sst"))
    assert files, "some was written to files"
    for file in files:
        with file.open("r+b") as damaged:
            damaged.write(b"\xff" * 65536)
    with pytest.raises(StateError, match=rf"{STATE} .* cannot be read .*{tmp_path}/one: .*orrupt"):
        for number in range(20_000):
            stored.get(number.to_bytes(4, "big"))
    with pytest.raises(StateError, match=rf"{STATE} .* cannot be read .*{tmp_path}/one: .*orrupt"):
        list(stored.iterate(stored.snapshot()))
    database.close()
