"""The processor time available to a thread, and how much of it the thread used."""

from __future__ import annotations

import threading

import pytest

from flinknet.cluster.worker.thread_clocks import ThreadClocks, cpu_time

A, B, C, D = range(4)
BEFORE = ThreadClocks(100.0, dict.fromkeys(range(4), 7.0), dict.fromkeys(range(4), 3.0))


def after(*computed: float, queued: float = 0.0) -> ThreadClocks:
    """Return the clocks a second later; all threads were queued equally long."""
    return ThreadClocks(
        101.0,
        {thread: 7.0 + seconds for thread, seconds in enumerate(computed)},
        dict.fromkeys(range(4), 3.0 + queued),
    )


@pytest.mark.parametrize(
    ("clocks", "computes"),
    [
        (after(0.9), True),
        (after(0.4), False),
        (after(0.0), False),
        (after(0.2, queued=0.75), True),
        (after(0.1, queued=0.1), False),
        (after(0.5, 0.5), True),
        (after(0.25, 0.25, 0.25, 0.25), True),
        (after(0.12, 0.12, 0.12, 0.12, queued=0.12), True),
        (after(0.02, 0.95), False),
        (after(0.01, 0.5, queued=0.4), False),
    ],
    ids=[
        "alone",
        "sleeps for most of the time",
        "sleeps",
        "waits for a processor",
        "sleeps on a busy machine",
        "shares the interpreter with another",
        "with three others",
        "and all of them the processor too",
        "sleeps beside one that computes",
        "sleeps beside one, on a busy machine",
    ],
)
def test_a_thread_is_on_the_cpu_if_it_uses_the_remaining_time(
    clocks: ThreadClocks, computes: bool
) -> None:
    assert clocks.has_computed(A, BEFORE) is computes


def test_only_the_working_time_of_a_thread_counts() -> None:
    assert after(0.25).has_computed(A, BEFORE, occupied=0.3)
    assert not after(0.05).has_computed(A, BEFORE, occupied=0.3)


def test_a_new_thread_has_taken_no_time_from_others() -> None:
    before = BEFORE._replace(computed={A: 7.0})
    assert not after(0.4, 9.0).has_computed(A, before)


def test_the_clocks_of_real_threads_go_on_while_they_compute() -> None:
    me, native_id = threading.get_ident(), threading.get_native_id()
    before = ThreadClocks.read([me])
    while cpu_time(native_id) < before.computed[me] + 0.01:
        pass
    now = ThreadClocks.read([me])
    assert now.at > before.at
    assert now.queued[me] >= before.queued[me]
    assert now.has_computed(me, before)


def test_without_clocks_of_threads_no_thread_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    me = threading.get_ident()
    monkeypatch.setattr("sys.platform", "darwin")
    assert ThreadClocks.read([me]).computed[me] == 0.0


def test_a_thread_that_has_ended_or_is_unknown_computes_nothing() -> None:
    """A thread may end between the look at its stack and the look at its clock."""
    ended = threading.Thread(target=threading.get_native_id)
    ended.start()
    ended.join()
    assert ended.ident is not None
    clocks = ThreadClocks.read([ended.ident])
    assert (clocks.computed[ended.ident], clocks.queued[ended.ident]) == (0.0, 0.0)
    assert not clocks.has_computed(ended.ident, clocks)
    assert ended.native_id is not None
    assert cpu_time(ended.native_id) >= 0.0, "the kernel may have it a moment longer"
