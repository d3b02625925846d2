"""Verification passes on the right answer and names every wrong value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from flinknet.demo.verification import Difference, Verification, expected_aggregates, verify
from flinknet.demo.workload import Workload
from tests.unit.demo.conftest import SMALL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.spark]

Check = Callable[[list[dict[str, Any]]], Verification]

SCHEMA = pa.schema(
    [("origin", pa.string()), ("dest", pa.string())]
    + [(name, pa.int64()) for name in ("records", "distance", "delay_sum", "delays", "id_sum")]
)


@pytest.fixture
def answer(flights: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the right answer, computed from the flights and not from the prepared workload."""
    year = flights.head(SMALL.limit)
    rows = []
    for (origin, dest), part in year.groupby(["origin", "dest"]):
        ids = [row + copy * SMALL.limit for row in part.index for copy in range(SMALL.scale)]
        rows.append(
            {
                "origin": origin,
                "dest": dest,
                "records": len(part) * SMALL.scale,
                "distance": int(part["distance"].sum()) * SMALL.scale,
                "delay_sum": int(part["arr_delay"].sum()) * SMALL.scale,
                "delays": int(part["arr_delay"].count()) * SMALL.scale,
                "id_sum": sum(ids),
            }
        )
    return rows


@pytest.fixture(scope="module")
def expected(spark: SparkSession, workload: Workload) -> DataFrame:
    return expected_aggregates(spark, workload)


@pytest.fixture
def check(spark: SparkSession, expected: DataFrame, tmp_path: Path) -> Check:
    """Verify an answer that is written as the sinks write it, in two files."""

    def run(rows: list[dict[str, Any]]) -> Verification:
        for part in range(2):
            table = pa.Table.from_pylist(rows[part::2], SCHEMA)
            pyarrow.parquet.write_table(table, tmp_path / f"part-{part}.parquet")
        return verify(spark, expected, tmp_path)

    return run


def test_the_right_answer_passes(answer: list[dict[str, Any]], check: Check) -> None:
    verification = check(answer)
    assert verification == Verification(len(answer), SMALL.records, ())
    assert verification.passed


@pytest.mark.parametrize("aggregate", ["records", "distance", "delay_sum", "delays", "id_sum"])
def test_one_changed_aggregate_is_a_difference(
    answer: list[dict[str, Any]], check: Check, aggregate: str
) -> None:
    pair = answer[17]
    right = pair[aggregate]
    pair[aggregate] += 1
    verification = check(answer)
    assert not verification.passed
    assert verification.differences == (
        Difference(pair["origin"], pair["dest"], aggregate, right, right + 1),
    )


def test_a_null_is_a_difference(answer: list[dict[str, Any]], check: Check) -> None:
    right, answer[3]["delay_sum"] = answer[3]["delay_sum"], None
    (difference,) = check(answer).differences
    assert (difference.spark, difference.flinknet) == (right, None)


def test_a_missing_pair_is_a_difference(answer: list[dict[str, Any]], check: Check) -> None:
    missing = answer.pop(5)
    differences = check(answer).differences
    assert {(difference.origin, difference.dest) for difference in differences} == {
        (missing["origin"], missing["dest"])
    }
    assert {difference.aggregate: difference.spark for difference in differences} == {
        "results": 1,
        **{name: missing[name] for name in SCHEMA.names[2:]},
    }
    assert all(difference.flinknet is None for difference in differences)


def test_a_pair_that_nobody_flew_is_a_difference(
    answer: list[dict[str, Any]], check: Check
) -> None:
    answer.append({**answer[0], "origin": "XXX"})
    differences = check(answer).differences
    assert {difference.origin for difference in differences} == {"XXX"}
    assert all(difference.spark is None for difference in differences)


def test_a_pair_in_two_subtasks_is_a_difference_even_if_the_sums_agree(
    answer: list[dict[str, Any]], check: Check
) -> None:
    empty = dict.fromkeys(SCHEMA.names[2:], 0)
    answer.append({**answer[8], **empty})
    (difference,) = check(answer).differences
    assert (difference.aggregate, difference.spark, difference.flinknet) == ("results", 1, 2)
