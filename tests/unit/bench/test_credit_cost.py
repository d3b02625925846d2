"""The cost of credit and checksums: the ratio of two variants, beside the row that has them."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from bench.credit_cost.family import COMPARED_WITH, CreditCostFamily, cost_ratio
from bench.credit_cost.system import CONFIGS, SYSTEM, WITHOUT_CREDIT
from bench.harness.row import Row, median_row


def row(case: str, variant: str, rate: float) -> Row:
    return median_row(
        "credit-cost",
        case,
        ("flinknet", variant, "1"),
        [rate],
        [1.0],
        8.0,
        verified=True,
        parameters={},
    )


ROWS = [
    row("tuple", "record, credit on", 95.0),
    row("tuple", "record, credit off", 100.0),
    row("tuple", "bulk, credit on", 300.0),
    row("tuple", "bulk, credit off", 200.0),
    row("tuple", "bulk, credit and checksums on", 270.0),
    row("bytes-1k", "bulk, credit on", 1.0),
]


def test_the_ratio_is_that_of_the_same_case_in_the_same_mode() -> None:
    assert [cost_ratio(ROWS, one) for one in ROWS] == [0.95, None, 1.5, None, 0.9, None]


def test_every_variant_has_a_mode_and_a_configuration() -> None:
    assert {variant.partition(", ")[2] for variant in SYSTEM.variants} == set(CONFIGS)
    assert set(COMPARED_WITH) == set(CONFIGS) - {WITHOUT_CREDIT}
    configs = [options["config"] for options in CONFIGS.values()]
    assert [one.flow_control == "off" for one in configs] == ["off" in has for has in CONFIGS]
    assert [one.checksums == "on" for one in configs] == ["checksums" in has for has in CONFIGS]
    assert ["tls" in one for one in CONFIGS.values()] == ["TLS" in has for has in CONFIGS]


def test_the_table_shows_the_ratio_where_there_is_one() -> None:
    printed = StringIO()
    CreditCostFamily().print(ROWS, Console(file=printed, width=110))
    lines = [line.split() for line in printed.getvalue().splitlines() if ", credit" in line]
    assert [line[-2:] for line in lines[:3]] == [["0.950", "yes"], ["1", "yes"], ["1.500", "yes"]]
