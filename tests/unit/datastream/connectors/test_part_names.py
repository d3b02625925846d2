"""The owner of a file, by its name."""

from __future__ import annotations

import pytest

from flinknet.datastream.connectors.part_names import CommittedPart, PartNames, PreparedPart
from flinknet.errors import ConfigurationError


def test_names_say_whose_a_file_is() -> None:
    names = PartNames("part", ".csv")
    assert names.of_job(1, 4, "job-0") == "part-00001-of-00004-job-0.csv"
    assert names.of_job(1, 4, "job-0", 2) == "part-00001-of-00004-job-0-2.csv"
    committed = names.of_checkpoint(3, 4, "job", 5, 6)
    assert committed == "part-00003-of-00004-job-5-6.csv"
    assert names.prepared(f".{committed}") == PreparedPart(3, "job", 5)
    assert names.prepared(committed) is None
    assert names.committed(committed) is None
    visible = names.with_checkpoint(committed, 12)
    assert visible == "part-00003-of-00004-job-5-6-12.csv"
    assert names.committed(visible) == CommittedPart(3, "job", 12, committed)
    assert names.prepared(f".{visible}") is None
    assert all(map(names.is_own, (committed, f".{committed}", names.of_job(1, 4, "job-0"))))


@pytest.mark.parametrize("name", ["part-1.csv", "part-00001-of-00004-job-0.txt", "notes.csv", ""])
def test_files_of_other_programs_are_not_taken_for_a_sinks(name: str) -> None:
    names = PartNames("part", ".csv")
    assert not names.is_own(name)
    assert names.prepared(f".{name}") is None
    assert not PartNames("p.rt").is_own("part-00001-of-00004-job-0")


@pytest.mark.parametrize(
    ("prefix", "suffix"), [("", ".csv"), (".part", ""), ("_p", ""), ("a/b", ""), ("p", "/x")]
)
def test_names_that_readers_skip_are_refused(prefix: str, suffix: str) -> None:
    with pytest.raises(ConfigurationError, match='choose a prefix that does not begin with "."'):
        PartNames(prefix, suffix)
