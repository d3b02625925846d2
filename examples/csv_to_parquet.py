"""How do the good rows of a CSV file become Parquet, without losing sight of the damaged ones?

Each line is parsed and checked. Good rows go to Parquet files, exact to the cent. A damaged line
goes to a side output with the reason, and stops nothing. Needs pip install "flinknet[arrow]".

Shows: files as source and sink, a process function, side outputs.
Run: flinknet run examples/csv_to_parquet.py [DIRECTORY FOR THE PARQUET FILES]
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from flinknet.datastream import (
    OutputTag,
    ParquetSink,
    ProcessContext,
    ProcessFunction,
    StreamExecutionEnvironment,
    TextFileSource,
)

ORDERS = Path(__file__).parent / "data" / "orders.csv"
COLUMNS = {
    "order": pa.int64(),
    "product": pa.string(),
    "quantity": pa.int64(),
    "price": pa.decimal128(10, 2),
}
DAMAGED = OutputTag("damaged")


class Parse(ProcessFunction):
    def process_element(
        self, value: str, ctx: ProcessContext
    ) -> Iterator[tuple[int, str, int, Decimal] | tuple[OutputTag, str]]:
        try:
            [fields] = csv.reader([value])
            if fields == list(COLUMNS):
                return
            order, product, quantity, price = fields
            euros = Decimal(price)
            if not euros.is_finite() or euros < 0:
                raise ValueError("the price is not 0 or more")
            yield int(order), product, int(quantity), euros
        except InvalidOperation:
            yield DAMAGED, f"{value}: the price is no number"
        except (ValueError, csv.Error) as reason:
            yield DAMAGED, f"{value}: {reason}"


def convert(directory: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    rows = env.from_source(TextFileSource(ORDERS), name="orders").process(Parse())
    rows.sink_to(ParquetSink(directory, COLUMNS))
    rows.get_side_output(DAMAGED).print("damaged")
    env.execute("csv to parquet")
    table = pq.read_table(directory).sort_by("order")
    for row in table.to_pylist():
        print(row["order"], row["product"], row["quantity"] * row["price"])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        convert(Path(sys.argv[1]))
    else:
        with TemporaryDirectory() as temporary:
            convert(Path(temporary) / "orders")
