"""How much was sold per city, if no row ever becomes a Python object?

Arrow record batches are the records, and are cut by a column, so that the rows of a city meet in
one subtask. There Arrow sums them up. If DuckDB is installed, it answers the same question for the
same batches, and must agree. Needs pip install "flinknet[arrow]".

Shows: columnar records, a generated source, key_by_columns, a batch function with finish.
Run: flinknet run examples/columns.py
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flinknet.datastream import (
    GeneratorSource,
    MapBatchFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)

CITIES = ["Bern", "Lima", "Oslo", "Rome", "Wien"]
BATCHES, ROWS = 40, 5000


def sales(number: int) -> Any:
    """Return batch ``number`` of the sales, as an Arrow record batch."""
    rows = range(number * ROWS, (number + 1) * ROWS)
    cities = [CITIES[row * row % 23 % 5] for row in rows]
    return pa.record_batch({"city": cities, "cents": [row * 37 % 10_007 for row in rows]})


def sums(table: Any) -> Any:
    """Return count and sum of each city as a table."""
    grouped = table.group_by("city").aggregate([("count", "sum"), ("cents", "sum")])
    return grouped.rename_columns({"count_sum": "count", "cents_sum": "cents"})


class SumUp(MapBatchFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.totals: list[Any] = []

    def map_batch(self, values: list[Any]) -> None:
        new = pa.Table.from_batches(values)
        counted = new.append_column("count", pa.array([1] * new.num_rows))
        self.totals = [
            sums(pa.concat_tables([*self.totals, counted.select(["city", "count", "cents"])]))
        ]

    def finish(self) -> list[Any]:
        return [batch for table in self.totals for batch in table.to_batches()]


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    stream = env.from_source(GeneratorSource(sales, BATCHES), name="sales")
    with stream.key_by_columns("city").map_batch(SumUp()).execute_and_collect("columns") as found:
        table = pa.Table.from_batches(found).sort_by("city")
    for row in table.to_pylist():
        print(f"{row['city']}: {row['count']} sales, {row['cents'] / 100:.2f} euros")
    try:
        import duckdb
    except ImportError:
        print("DuckDB is not installed, and was not asked")
        return
    everything = pa.Table.from_batches(map(sales, range(BATCHES)))
    cities = duckdb.arrow(everything).aggregate("city, count(*), sum(cents)").order("city")
    answer = cities.fetchall()
    same = answer == [tuple(row.values()) for row in table.to_pylist()]
    print("DuckDB agrees" if same else f"DuckDB says {answer}")


if __name__ == "__main__":
    main()
