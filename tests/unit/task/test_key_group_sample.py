"""A sample of the key groups of records."""

from __future__ import annotations

from flinknet.metrics.worker_statistics import KeyGroupCount
from flinknet.task.key_group_sample import KEY_GROUPS_TOLD_MAX, SAMPLE_MAX, KeyGroupSample


def modulo(record: int) -> int:
    return record % 128


def test_one_record_of_each_batch_is_looked_at_each_time_another_one() -> None:
    sample = KeyGroupSample([modulo])
    for _ in range(3):
        sample.take(0, (1, 2, 3))
    assert set(sample.counts()) == {KeyGroupCount(group, 1) for group in (1, 2, 3)}


def test_channels_without_keys_are_passed_over() -> None:
    sample = KeyGroupSample([None, modulo])
    sample.take(0, (1,))
    sample.take(1, (2,))
    assert sample.counts() == (KeyGroupCount(2, 1),)


def test_what_was_long_ago_fades() -> None:
    sample = KeyGroupSample([modulo])
    sample.take(0, (5,))
    for _ in range(2 * SAMPLE_MAX):
        sample.take(0, (7,))
    ((group, count),) = sample.counts()
    assert group == 7
    assert SAMPLE_MAX / 2 <= count < SAMPLE_MAX


def test_the_many_with_few_records_are_told_together() -> None:
    sample = KeyGroupSample([modulo])
    for record in range(100):
        sample.take(0, (record,))
        sample.take(0, (3,))
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
    sample.take(0, (1,))
    sample.take(0, (1,))
    assert (asked, sample.counts()) == (1, ())
