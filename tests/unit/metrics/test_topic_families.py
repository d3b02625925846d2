"""Topics are counted by their names."""

from __future__ import annotations

import pytest

from flinknet.metrics.environment_statistics import TopicStatistics
from flinknet.metrics.families import Kind
from flinknet.metrics.topic_families import topic_families

LABELS = {"tm_id": "worker-0"}
TOPICS = [TopicStatistics("ticks", 2, 30, 5, 1, 2, 400)]
FAMILIES = {family.name: family for family in topic_families(LABELS, TOPICS)}


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("readers", Kind.GAUGE, 2),
        ("queued_records", Kind.GAUGE, 30),
        ("readers_joined_total", Kind.COUNTER, 5),
        ("readers_left_total", Kind.COUNTER, 1),
        ("readers_disconnected_total", Kind.COUNTER, 2),
        ("dropped_records_total", Kind.COUNTER, 400),
    ],
)
def test_each_count_is_exported(name: str, kind: Kind, value: int) -> None:
    family = FAMILIES[f"flinknet_topic_{name}"]
    assert (family.kind, family.samples) == (kind, [({**LABELS, "topic": "ticks"}, value)])


def test_without_topics_there_is_nothing() -> None:
    assert list(topic_families(LABELS, [])) == []
