"""How families are read from what they describe."""

from __future__ import annotations

from flinknet.metrics.families import Family, Kind, Metric, families_of


def test_a_family_has_a_sample_of_each_that_has_a_value() -> None:
    metrics = [
        Metric[str]("length", "Letters", len),
        Metric[str]("odd_total", "Odd ones", lambda text: 1 if len(text) % 2 else None),
        Metric[str]("never", "Of nobody", lambda text: None),
    ]
    described = [({"text": text}, text) for text in ("a", "bb")]
    assert list(families_of(metrics, described)) == [
        Family("length", "Letters", Kind.GAUGE, [({"text": "a"}, 1), ({"text": "bb"}, 2)]),
        Family("odd_total", "Odd ones", Kind.COUNTER, [({"text": "a"}, 1)]),
    ]


def test_nothing_described_is_no_family() -> None:
    assert list(families_of([Metric("length", "Letters", len)], [])) == []
