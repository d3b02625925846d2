"""The metrics of topics: who reads them, and what a slow reader has cost itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flinknet.metrics.environment_statistics import TopicStatistics
from flinknet.metrics.families import Family, Labels, Metric, families_of

__all__ = ["topic_families"]

_TOPIC: tuple[Metric[TopicStatistics], ...] = (
    Metric("flinknet_topic_readers", "Readers of a topic", lambda topic: topic.readers),
    Metric(
        "flinknet_topic_queued_records",
        "Records that wait for one of a topic's readers each",
        lambda topic: topic.records_queued,
    ),
    Metric(
        "flinknet_topic_readers_joined_total",
        "Readers that have joined a topic",
        lambda topic: topic.joined_total,
    ),
    Metric(
        "flinknet_topic_readers_left_total",
        "Readers that have left a topic",
        lambda topic: topic.left_total,
    ),
    Metric(
        "flinknet_topic_readers_disconnected_total",
        "Readers of a topic that were disconnected because they did not keep up",
        lambda topic: topic.disconnected_total,
    ),
    Metric(
        "flinknet_topic_dropped_records_total",
        "Records that one of a topic's readers each has lost because it did not keep up",
        lambda topic: topic.records_dropped_total,
    ),
)


def topic_families(labels: Labels, topics: Sequence[TopicStatistics]) -> Iterator[Family]:
    """The topics of one worker, by their names."""
    yield from families_of(_TOPIC, [({**labels, "topic": topic.name}, topic) for topic in topics])
