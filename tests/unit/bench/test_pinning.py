from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bench.harness import pinning

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="the CPUs of a process are Linux's and CPython's"
)


@pytest.fixture(autouse=True)
def _elsewhere_afterwards() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


def test_both_ways_to_pin_do_the_same() -> None:
    for cpu in os.sched_getaffinity(0):
        for pin in (pinning.pin, pinning._set_affinity):
            pin(cpu)
            assert os.sched_getaffinity(0) == {cpu}


def test_none_pins_nothing() -> None:
    before = os.sched_getaffinity(0)
    pinning.pin(None)
    assert os.sched_getaffinity(0) == before


def test_a_cpu_that_is_not_there_is_an_error() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        pinning._set_affinity(60_000)
