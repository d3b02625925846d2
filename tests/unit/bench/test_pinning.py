from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bench.harness import pinning

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="the CPUs of a process are Linux's"
)


@pytest.fixture(autouse=True)
def _elsewhere_afterwards() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


def test_a_process_is_kept_on_one_cpu() -> None:
    for cpu in os.sched_getaffinity(0):
        pinning.pin(cpu)
        assert os.sched_getaffinity(0) == {cpu}


def test_none_pins_nothing() -> None:
    before = os.sched_getaffinity(0)
    pinning.pin(None)
    assert os.sched_getaffinity(0) == before


def test_a_cpu_that_is_not_there_is_an_error() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        pinning.pin(60_000)
