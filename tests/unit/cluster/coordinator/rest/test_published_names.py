"""Names that producers publish and withdraw."""

from __future__ import annotations

from flinknet.cluster.coordinator.rest.published_names import (
    LeftFailure,
    PublishedName,
    PublishedNames,
)


def test_a_name_exists_until_it_is_withdrawn() -> None:
    names = PublishedNames(10)
    names.publish("2", PublishedName("job", "readings", "b", "127.0.0.1:2"))
    names.publish("1", PublishedName("job", "readings", "a", "127.0.0.1:1"))
    names.publish("3", PublishedName("other", "readings", "c", "127.0.0.1:3"))
    names.publish("4", PublishedName("job", "orders", "a", "127.0.0.1:1"))
    assert names.addresses("job", "readings") == ["127.0.0.1:1", "127.0.0.1:2"]
    assert names.addresses("job", "nothing") == []
    names.withdraw("1")
    names.withdraw("1")
    assert names.addresses("job", "readings") == ["127.0.0.1:2"]
    assert names.addresses("other", "readings") == ["127.0.0.1:3"]
    assert len(names) == 3


def test_a_republished_name_survives_the_withdrawal_of_the_earlier_one() -> None:
    names = PublishedNames(10)
    names.publish("1", PublishedName("job", "readings", "a", "127.0.0.1:1"))
    names.publish("2", PublishedName("job", "readings", "a", "127.0.0.1:2"))
    names.withdraw("1")
    assert names.addresses("job", "readings") == ["127.0.0.1:2"]


def test_the_end_of_a_lost_connection_keeps_names_that_another_connection_published() -> None:
    names = PublishedNames(10)
    lost = PublishedName("job", "readings", "a", "127.0.0.1:1")
    anew = PublishedName("job", "readings", "a", "127.0.0.1:1")
    names.publish("1", lost)
    names.publish("1", anew)
    names.withdraw("1", lost)
    assert names.addresses("job", "readings") == ["127.0.0.1:1"]
    names.withdraw("1", anew)
    assert names.addresses("job", "readings") == []


def test_a_failure_is_for_readers_that_come_in_time_and_is_taken_by_each_once() -> None:
    names = PublishedNames(10)
    names.publish("1", PublishedName("job", "readings", "a", "127.0.0.1:1"))
    left = LeftFailure(6, "boom", {0, 1}, until=10.0)
    names.leave("1", left)
    assert names.addresses("job", "readings") == []
    assert names.take_failure("other", "readings", 0, 1.0) is None
    assert names.take_failure("job", "readings", 2, 1.0) is None
    assert names.take_failure("job", "readings", 0, 1.0) is left
    assert names.take_failure("job", "readings", 0, 1.0) is None
    assert names.take_failure("job", "readings", 1, 10.0) is None, "it is too late"
    names.leave("gone already", left)
    assert names.take_failure("job", "readings", 1, 1.0) is None


def test_few_failures_are_kept_and_none_of_a_returned_producer() -> None:
    names = PublishedNames(2)
    for number in range(3):
        name = PublishedName("job", f"n{number}", "a", "127.0.0.1:1")
        names.publish("1", name)
        names.leave("1", LeftFailure(6, f"boom {number}", None, until=10.0))
    assert names.take_failure("job", "n0", 0, 1.0) is None
    for _ in range(2):
        found = names.take_failure("job", "n1", 7, 1.0)
        assert found is not None
        assert found.text == "boom 1"
    names.publish("2", PublishedName("job", "n1", "a", "127.0.0.1:1"))
    assert names.take_failure("job", "n1", 0, 1.0) is None
    assert names.take_failure("job", "n2", 0, 1.0) is not None
