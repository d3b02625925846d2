"""The programs of ``examples/``: each runs as its reader would run it, and its answer is right."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from examples import columns, enrichment, fraud, joins, top_products
from tests.integration.cluster_runs import ROOT, flinknet_run, python_run

EXAMPLES = ROOT / "examples"
PROGRAMS = sorted(path.name for path in EXAMPLES.glob("*.py"))


def lines_of(name: str, *arguments: str, cwd: Path) -> list[str]:
    """Run an example with ``flinknet run`` and return the lines of its answer."""
    run = flinknet_run(str(EXAMPLES / name), *arguments, cwd=cwd)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


# -- what a reader sees first


def test_the_list_has_the_programs_that_are_there() -> None:
    listed = re.findall(
        r"^\| \[([^]]+)\]\(\1\)", (EXAMPLES / "README.md").read_text(), re.MULTILINE
    )
    assert sorted(listed) == PROGRAMS
    assert len(listed) == 10


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_short_and_describes_itself(name: str) -> None:
    text = (EXAMPLES / name).read_text()
    assert 30 <= len(text.splitlines()) <= 80
    described = ast.get_docstring(ast.parse(text))
    assert described is not None
    question, *rest = described.splitlines()
    assert question.endswith("?")
    assert 3 <= 1 + len(rest) <= 8
    assert any(line.startswith("Shows: ") for line in rest)
    command = "python" if name == "prices_service.py" else "flinknet run"
    assert rest[-1].startswith(f"Run: {command} examples/{name}")


# -- what they answer


def test_sessions(tmp_path: Path) -> None:
    assert sorted(lines_of("sessions.py", cwd=tmp_path)) == [
        "ann from 0 s: home, search, shoes",
        "ann from 90 s: home",
        "bob from 4 s: home",
        "bob from 50 s: home, basket",
        "cid from 198 s: search, home",
        "too late> ('ann', 25, 'basket')",
        "too late> ('bob', 5, 'shoes')",
    ]


def test_fraud(tmp_path: Path) -> None:
    expected, before = [], dict[str, tuple[int, float]]()
    for second, card, euros in fraud.payments():
        since, previous = before.get(card, (0, 100.0))
        if previous < 1 and euros > 500 and second - since <= 60:
            expected.append(f"{card}: {euros:.0f} euros {second - since} s after a small payment")
        before[card] = second, euros
    assert len(expected) > 10
    assert lines_of("fraud.py", cwd=tmp_path) == sorted(expected)


def test_enrichment(tmp_path: Path) -> None:
    known = {**enrichment.NAMES, enrichment.SILENT: f"customer {enrichment.SILENT}"}
    expected = [f"order {order}: {known[customer]}" for order, customer in enrichment.ORDERS]
    assert lines_of("enrichment.py", cwd=tmp_path) == expected


def test_csv_to_parquet(tmp_path: Path) -> None:
    lines = lines_of("csv_to_parquet.py", str(tmp_path / "orders"), cwd=tmp_path)
    good = [line for line in lines if not line.startswith("damaged> ")]
    assert [line for line in lines if line not in good] == [
        "damaged> 2,chair,four,49.00: invalid literal for int() with base 10: 'four'",
        "damaged> 5,lamp: not enough values to unpack (expected 4, got 2)",
        "damaged> 7,sofa,1,-499.00: the price is not 0 or more",
        "damaged> 9,table,1,twelve: the price is no number",
    ]
    assert good == [
        "1 lamp 39.80",
        "3 table 149.00",
        "4 shelf, oak 268.50",
        "6 chair 294.00",
        "8 lamp 19.90",
        '10 desk "Nora" 219.00',
    ]
    assert list((tmp_path / "orders").glob("*.parquet"))


def test_top_products(tmp_path: Path) -> None:
    last_minute = top_products.SALES[-1][0] // 60
    expected = []
    for end in range(5, last_minute + 10, 5):
        sold = Counter(name for second, name in top_products.SALES if end - 10 <= second / 60 < end)
        best = sorted(sold.items(), key=lambda item: (-item[1], item[0]))[:3]
        if best:
            names = ", ".join(f"{name} {count}" for name, count in best)
            expected.append(f"until minute {end}: {names}")
    assert lines_of("top_products.py", cwd=tmp_path) == expected


def test_joins(tmp_path: Path) -> None:
    ordered = {order: minute for minute, order, _ in joins.ORDERS}
    on_time = {
        order
        for minute, order, _ in joins.PAYMENTS
        if order in ordered and 0 <= minute - ordered[order] <= joins.WITHIN
    }
    groups = {
        "paid": [euros for _, order, euros in joins.ORDERS if order in on_time],
        "unpaid": [euros for _, order, euros in joins.ORDERS if order not in on_time],
        "unmatched": [euros for _, order, euros in joins.PAYMENTS if order not in on_time],
    }
    expected = [f"{what}: {len(euros)}, {sum(euros)} euros" for what, euros in groups.items()]
    assert all(groups.values())
    assert lines_of("joins.py", cwd=tmp_path) == expected


def test_rules(tmp_path: Path) -> None:
    """At 10 s ann's -20 are within the limit of that time, and at 25 s her -40 are not."""
    assert sorted(lines_of("rules.py", cwd=tmp_path)) == [
        "25 s: ann has -40, less than -10",
        "31 s: bob has withdrawn 800, over 500",
        "35 s: ann is deleted with a balance of -40",
    ]


def test_sensors(tmp_path: Path) -> None:
    degrees = defaultdict[tuple[str, int], list[float]](list)
    for room, readings in [("cellar", 7), ("kitchen", 31), ("attic", 31)]:
        for number in range(readings):
            degrees[room, number // 6].append(15.0 + len(room) + number % 7)
    expected = [
        f"{room}, minute {minute}: {sum(those) / len(those):.2f} degrees"
        for (room, minute), those in degrees.items()
    ]
    lines = lines_of("sensors.py", cwd=tmp_path)
    assert sorted(line.rpartition(", ")[0] for line in lines) == sorted(expected)
    live = [line for line in lines if line.endswith(", live")]
    assert any("kitchen, minute 2" in line for line in live), "the silent sensor held it up"


def test_columns(tmp_path: Path) -> None:
    sold: Counter[str] = Counter()
    cents: Counter[str] = Counter()
    for number in range(columns.BATCHES):
        batch = columns.sales(number).to_pydict()
        sold.update(batch["city"])
        for city, price in zip(batch["city"], batch["cents"], strict=True):
            cents[city] += price
    *lines, compared = lines_of("columns.py", cwd=tmp_path)
    assert lines == [
        f"{city}: {sold[city]} sales, {cents[city] / 100:.2f} euros" for city in columns.CITIES
    ]
    pytest.importorskip("duckdb")
    assert compared == "DuckDB agrees"


def test_prices_service(tmp_path: Path) -> None:
    run = python_run(str(EXAMPLES / "prices_service.py"), cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    archive, quick, slow = run.stdout.splitlines()
    assert archive == "archive: complete"
    assert re.fullmatch(r"quick subscriber: up to date after \d+ messages", quick)
    # It asks once while the feed writes, and again after the feed's end.
    assert re.fullmatch(r"slow subscriber: up to date after [12] messages", slow)
