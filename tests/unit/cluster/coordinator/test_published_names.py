"""Names that producers say and take back."""

from __future__ import annotations

from flinknet.cluster.coordinator.published_names import PublishedName, PublishedNames


def test_a_name_is_there_until_it_is_taken_back() -> None:
    names = PublishedNames()
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


def test_what_a_worker_has_said_anew_stays_when_it_takes_back_what_it_said_before() -> None:
    names = PublishedNames()
    names.publish("1", PublishedName("job", "readings", "a", "127.0.0.1:1"))
    names.publish("2", PublishedName("job", "readings", "a", "127.0.0.1:2"))
    names.withdraw("1")
    assert names.addresses("job", "readings") == ["127.0.0.1:2"]


def test_the_end_of_a_lost_connection_leaves_what_was_said_anew_over_another() -> None:
    names = PublishedNames()
    lost = PublishedName("job", "readings", "a", "127.0.0.1:1")
    anew = PublishedName("job", "readings", "a", "127.0.0.1:1")
    names.publish("1", lost)
    names.publish("1", anew)
    names.withdraw("1", lost)
    assert names.addresses("job", "readings") == ["127.0.0.1:1"]
    names.withdraw("1", anew)
    assert names.addresses("job", "readings") == []
