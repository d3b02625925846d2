"""Reading and summing metrics, and building a catalogue from them."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from flinknet.metrics.registry import Adding, Catalogue, Family, Kind, Metric, Unit


class Part(NamedTuple):
    size: int | None
    used: int


class Whole(NamedTuple):
    name: str
    parts: tuple[Part, ...] = ()


TWO = Whole("two", (Part(8, 2), Part(None, 1)))
NONE = Whole("none")
ONE = Whole("a", (Part(2, 2),))


def metric(adds: Adding = Adding.SUM) -> Metric[Whole]:
    return Metric("sizes", Unit.BYTES, "size", "Sizes", adds=adds, over="parts")


@pytest.mark.parametrize(
    ("adds", "two", "none", "total"),
    [
        (Adding.SUM, 8, 0, 10),
        (Adding.MAX, 8, None, 8),
        (Adding.MIN, 8, None, 2),
        (Adding.MEAN, 8, None, 5),
    ],
)
def test_parts_without_a_number_do_not_count(
    adds: Adding, two: float, none: float | None, total: float
) -> None:
    sizes = metric(adds)
    assert (sizes.value(TWO), sizes.value(NONE)) == (two, none)
    assert sizes.total([TWO, NONE, ONE]) == total
    assert sizes.total([]) == none


def test_shares_add_up_by_what_they_are_shares_of() -> None:
    use: Metric[Whole] = Metric(
        "use",
        Unit.SHARE,
        lambda part: (part.used, part.size or 4),
        "Used",
        adds=Adding.SHARE,
        over="parts",
    )
    assert (use.value(TWO), use.value(NONE), use.value(ONE)) == (0.25, 0, 1)
    assert use.total([TWO, ONE, NONE]) == 5 / 14


def test_an_object_is_read_itself_by_path_or_by_function() -> None:
    by_path: Metric[Part] = Metric("used", Unit.BYTES, "used", "Used")
    by_function: Metric[Whole] = Metric("length", Unit.NUMBER, lambda one: len(one.name), "Letters")
    assert by_path.value(Part(8, 2)) == 2
    assert by_function.value(TWO) == 3
    assert by_function.total([ONE, TWO]) == 4


def test_a_rate_has_the_unit_of_its_counter_per_second() -> None:
    assert Unit.BYTES.per_second is Unit.BYTES_PER_SECOND
    with pytest.raises(ValueError, match="%/s"):
        _ = Unit.PERCENT.per_second


LETTERS: Catalogue[Whole] = Catalogue(
    "Wholes",
    (
        Metric("Name.length", Unit.NUMBER, lambda one: len(one.name), "Letters", Kind.COUNTER),
        Metric(
            "flinknet_parts_total",
            Unit.NUMBER,
            lambda one: len(one.parts) or None,
            "Parts",
            Kind.COUNTER,
        ),
        Metric("flinknet_never", Unit.NUMBER, lambda one: None, "Nothing"),
    ),
    scope="job_whole",
)
DESCRIBED = [({"whole": one.name}, one) for one in (TWO, NONE)]


def test_flinks_counters_are_gauges_in_its_scope_and_own_ones_are_counters() -> None:
    assert list(LETTERS.families(DESCRIBED)) == [
        Family(
            "flink_job_whole_Name_length",
            "Letters (scope: job_whole)",
            Kind.GAUGE,
            [({"whole": "two"}, 3), ({"whole": "none"}, 4)],
        ),
        Family("flinknet_parts_total", "Parts", Kind.COUNTER, [({"whole": "two"}, 2)]),
    ]


def test_another_scope_takes_the_place_of_the_catalogues() -> None:
    [family, _] = LETTERS.families(DESCRIBED, "other")
    assert (family.name, family.help) == ("flink_other_Name_length", "Letters (scope: other)")


def test_a_family_without_samples_is_there_only_if_asked_for() -> None:
    assert list(LETTERS.families([])) == []
    empty = [(one.name, one.samples) for one in LETTERS.families([], even_empty=True)]
    assert empty == [
        ("flink_job_whole_Name_length", []),
        ("flinknet_parts_total", []),
        ("flinknet_never", []),
    ]


def test_rest_has_flinks_names_alone() -> None:
    assert LETTERS.values(TWO) == {"Name.length": 3}


def test_a_metric_is_found_by_its_name() -> None:
    assert LETTERS["flinknet_never"].unit is Unit.NUMBER
    with pytest.raises(KeyError, match="flinknet_ever"):
        LETTERS["flinknet_ever"]
