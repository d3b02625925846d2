from __future__ import annotations

from asyncio import CancelledError

import pytest

from flinknet.buffer.availability import Availability


def test_a_subscriber_is_called_once_when_it_becomes_available() -> None:
    """B11: it is notified only of the change from unavailable to available."""
    availability = Availability()
    calls: list[str] = []
    availability.subscribe(lambda: calls.append("called"))
    availability.set(False)
    assert calls == []
    availability.set(True)
    availability.set(False)
    availability.set(True)
    assert calls == ["called"]
    assert availability.waiting == 0


def test_a_subscriber_is_called_at_once_if_already_available() -> None:
    availability = Availability(available=True)
    calls: list[str] = []
    availability.subscribe(lambda: calls.append("called"))
    assert calls == ["called"]
    assert availability.waiting == 0


def test_subscribers_are_called_in_the_order_of_their_coming() -> None:
    availability = Availability()
    calls: list[int] = []
    for number in range(5):
        availability.subscribe(lambda number=number: calls.append(number))  # type: ignore[misc]
    assert availability.waiting == 5
    availability.set(True)
    assert calls == [0, 1, 2, 3, 4]


def test_a_subscriber_that_left_is_not_called() -> None:
    availability = Availability()
    calls: list[str] = []

    def leaves() -> None:
        calls.append("leaves")

    availability.subscribe(leaves)
    availability.subscribe(lambda: calls.append("stays"))
    availability.unsubscribe(leaves)
    availability.set(True)
    assert calls == ["stays"]
    availability.unsubscribe(leaves)  # harmless a second time


def test_a_subscriber_may_subscribe_again_from_its_call() -> None:
    availability = Availability()
    calls: list[str] = []

    def again() -> None:
        calls.append("called")
        if len(calls) < 3:
            availability.available = False
            availability.subscribe(again)

    availability.subscribe(again)
    availability.set(True)
    assert calls == ["called"]
    assert availability.waiting == 1


def test_a_subscriber_that_raises_does_not_keep_it_from_the_others() -> None:
    availability = Availability()
    calls: list[str] = []
    boom = ValueError("boom")

    def fail() -> None:
        raise boom

    availability.subscribe(lambda: calls.append("before"))
    availability.subscribe(fail)
    availability.subscribe(lambda: calls.append("behind"))
    with pytest.raises(ValueError, match="boom") as raised:
        availability.set(True)
    assert raised.value is boom
    assert calls == ["before", "behind"]
    assert availability.available
    assert availability.waiting == 0


def test_errors_of_several_subscribers_are_raised_together() -> None:
    availability = Availability()
    calls: list[str] = []
    failures = [ValueError("first"), CancelledError("second")]

    def fail() -> None:
        raise failures[len(calls) // 2]

    for _ in range(2):
        availability.subscribe(fail)
        availability.subscribe(lambda: calls.extend(["told"] * 2))
    with pytest.raises(BaseExceptionGroup) as raised:
        availability.set(True)
    assert list(raised.value.exceptions) == failures
    assert calls == ["told"] * 4
