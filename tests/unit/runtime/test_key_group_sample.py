"""A sample of the key groups of records."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from flinknet.metrics.worker_statistics import KeyGroupCount
from flinknet.runtime.key_group_sample import (
    KEY_GROUPS_TOLD_MAX,
    LARGE_BATCH_RECORDS,
    LARGE_BATCHES_EACH,
    SAMPLE_MAX,
    KeyGroupSample,
)


def modulo(record: int) -> int:
    return record % 128


def take(sample: KeyGroupSample, channel: int, records: Sequence[int]) -> None:
    """Sample a batch as a subtask does."""
    if weight := sample.weigh(channel, len(records)):
        sample.take(channel, records, weight)


def test_one_record_of_each_batch_is_looked_at_each_time_another_one() -> None:
    sample = KeyGroupSample([modulo])
    for _ in range(3):
        take(sample, 0, (1, 2, 3))
    assert set(sample.counts()) == {KeyGroupCount(group, 1) for group in (1, 2, 3)}


def test_counts_may_be_asked_for_in_another_thread_while_records_are_taken() -> None:
    sample = KeyGroupSample([lambda record: record])
    interval, goes_on = sys.getswitchinterval(), threading.Event()
    sys.setswitchinterval(1e-6)

    def takes() -> None:
        record = 0
        while not goes_on.is_set():
            record += 1
            sample.take(0, (record % 5000,))

    thread = threading.Thread(target=takes)
    thread.start()
    try:
        for _ in range(3000):
            sample.counts()
    finally:
        goes_on.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_of_many_large_batches_one_stands_for_all() -> None:
    sample = KeyGroupSample([modulo])
    for group in range(LARGE_BATCHES_EACH):
        for _ in range(LARGE_BATCHES_EACH):
            take(sample, 0, (group,) * LARGE_BATCH_RECORDS)
        take(sample, 0, (100,))
    told = {one.key_group: one.records for one in sample.counts()}
    assert told.pop(100) == LARGE_BATCHES_EACH
    assert set(told.values()) == {LARGE_BATCHES_EACH}


def test_channels_that_take_turns_are_all_looked_at() -> None:
    """This holds for any number of channels."""
    for channels in (1, 2, 3, 7, 8, 9, 16):
        sample = KeyGroupSample([modulo] * channels)
        for number in range(SAMPLE_MAX - 1):
            channel = number % channels
            take(sample, channel, (channel,) * LARGE_BATCH_RECORDS)
        seen = {one.key_group for one in sample.counts() if one.key_group >= 0}
        assert len(seen) == min(channels, KEY_GROUPS_TOLD_MAX)


def test_channels_without_keys_are_passed_over() -> None:
    sample = KeyGroupSample([None, modulo])
    take(sample, 0, (1,))
    take(sample, 1, (2,))
    assert sample.counts() == (KeyGroupCount(2, 1),)


def test_old_samples_fade() -> None:
    sample = KeyGroupSample([modulo])
    take(sample, 0, (5,))
    for _ in range(2 * SAMPLE_MAX):
        take(sample, 0, (7,))
    ((group, count),) = sample.counts()
    assert group == 7
    assert SAMPLE_MAX / 2 <= count < SAMPLE_MAX


def test_the_many_with_few_records_are_told_together() -> None:
    sample = KeyGroupSample([modulo])
    for record in range(100):
        take(sample, 0, (record,))
        take(sample, 0, (3,))
    told = sample.counts()
    assert told[0] == KeyGroupCount(3, 101)
    assert len(told) == KEY_GROUPS_TOLD_MAX + 1
    assert told[-1] == KeyGroupCount(-1, 200 - sum(one.records for one in told[:-1]))


def test_a_channel_whose_records_cannot_be_keyed_is_left_alone() -> None:
    asked = 0

    def fail(record: int) -> int:
        nonlocal asked
        asked += 1
        raise AttributeError("a dict as it travels has no attribute")

    sample = KeyGroupSample([fail])
    take(sample, 0, (1,))
    take(sample, 0, (1,))
    assert (asked, sample.counts()) == (1, ())
