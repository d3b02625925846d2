"""Random files, clean and damaged, compared with DuckDB and pyarrow.

A source returns the records that a clean file was made of. For a damaged or ambiguous file it
returns the records that DuckDB or pyarrow reads, or refuses the file by name. DuckDB, pyarrow and
the source read the records that a sink has written, or the sink has refused them with the column.
``make test`` runs a fixed number of seeds, ``make fuzz SEEDS=5000`` a chosen one.
"""

from __future__ import annotations

import asyncio
import bz2
import csv
import datetime
import gzip
import io
import json
import lzma
import math
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from flinknet.datastream import (
    CommitContext,
    CsvSink,
    CsvSource,
    FileSource,
    JsonLinesSink,
    JsonLinesSource,
    ParquetSink,
)
from flinknet.errors import JobFailedError
from flinknet.operators.sink import SinkOperator, TwoPhaseSink
from tests.unit.operators.harness import Harness, context

SEEDS = 40
"""Seeds of each test in ``make test``."""

BLOCK = 100
"""Seeds of one test, which then ends well before its timeout."""

UTC = datetime.UTC
PIECES = [*"ab,;'\"\t #\\", "", "\n", "\r", "\r\n", '""', "é東🎈", "\ufeff", "NULL", "1"]
PIECES += ["b'", "\u2028"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Divide the requested seeds into blocks."""
    if "seeds" in metafunc.fixturenames:
        number = metafunc.config.getoption("--seeds") or SEEDS
        first = metafunc.config.getoption("--first-seed")
        starts = range(first, first + number, BLOCK)
        blocks = [range(start, min(start + BLOCK, first + number)) for start in starts]
        metafunc.parametrize("seeds", blocks, ids=[f"from {block.start}" for block in blocks])


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def records_of(source: Any) -> list[Any]:
    return [record for batch in source.read_share(context()) for record in batch]


def read_or_refused(source: Any, file: Path) -> list[Any] | None:
    """Return the records, or None if the source refuses the file by name."""
    try:
        return records_of(source)
    except ValueError as error:
        if not str(error).startswith(str(file)):
            raise
        return None


def write(sink: TwoPhaseSink, records: list[Any], random: Random) -> None:
    """Write the records in batches, and commit."""

    async def run() -> None:
        async with Harness(SinkOperator(sink), context(job_id="job")) as harness:
            rest = records
            while rest:
                number = random.randint(1, len(rest))
                await harness.process(*rest[:number])
                rest = rest[number:]
            await harness.end_of_input()
        committer = sink.create_committer(CommitContext("tested", "job", 0))
        committer.commit(harness.context.committables)

    asyncio.run(run())


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal and of one type; NaN equals itself."""
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def table_of(kinds: dict[str, pa.DataType], rows: list[tuple[Any, ...]]) -> pa.Table:
    values = zip(*rows, strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(values, kinds.values(), strict=True)]
    return pa.table(arrays, names=list(kinds))


def text(random: Random) -> str:
    return "".join(random.choice(PIECES) for _ in range(random.choice((0, 1, 2, 3, 9))))


def number(random: Random) -> float:
    return random.choice((0.1, -0.0, 1e300, 5e-324, float("inf"), random.random(), 1 / 3))


def whole(random: Random) -> int:
    return random.choice((0, -1, 2**63 - 1, -(2**63), random.getrandbits(40)))


# -- CSV -----------------------------------------------------------------------------------------


def duckdb_rows(
    database: duckdb.DuckDBPyConnection, file: Path, kinds: dict[str, str], delimiter: str
) -> list[tuple[Any, ...]]:
    return database.execute(
        "SELECT * FROM read_csv(?, header = true, auto_detect = false, delim = ?, quote = '\"', "
        "escape = '\"', nullstr = '', allow_quoted_nulls = false, columns = ?, "
        "max_line_size = 10000000)",
        [str(file), delimiter, kinds],
    ).fetchall()


def pyarrow_rows(
    file: Path, kinds: dict[str, pa.DataType], delimiter: str
) -> list[tuple[Any, ...]]:
    table = pyarrow.csv.read_csv(
        file,
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=kinds,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return rows_of(table)


CSV_KINDS: dict[str, tuple[str, pa.DataType, Any, Callable[[Random], Any]]] = {
    "text": ("VARCHAR", pa.string(), None, text),
    "whole": ("BIGINT", pa.int64(), int, whole),
    "number": ("DOUBLE", pa.float64(), float, number),
}


def test_csv_that_a_sink_has_written(
    tmp_path: Path, seeds: range, database: duckdb.DuckDBPyConnection
) -> None:
    for seed in seeds:
        random = Random(seed)
        kinds = [random.choice(list(CSV_KINDS)) for _ in range(random.randint(2, 4))]
        names = [f"{kind}{place}" for place, kind in enumerate(kinds)]
        delimiter = random.choice(",;\t|")
        rows = [
            tuple(None if random.random() < 0.1 else CSV_KINDS[kind][3](random) for kind in kinds)
            for _ in range(random.randint(1, 30))
        ]
        path = tmp_path / f"{seed}"
        write(CsvSink(path, names, delimiter=delimiter), rows, random)
        (file,) = path.glob("part*")

        named = dict(zip(names, kinds, strict=True))
        database_kinds = {name: CSV_KINDS[kind][0] for name, kind in named.items()}
        of_database = duckdb_rows(database, file, database_kinds, delimiter)
        assert is_same(of_database, rows), f"DuckDB, seed {seed}"
        arrow_kinds = {name: CSV_KINDS[kind][1] for name, kind in named.items()}
        assert is_same(pyarrow_rows(file, arrow_kinds, delimiter), rows), f"pyarrow, seed {seed}"
        types = {
            name: (lambda text, make=CSV_KINDS[kind][2]: make(text) if text else None)
            for name, kind in zip(names, kinds, strict=True)
            if kind != "text"
        }
        empty = ["" if kind == "text" else None for kind in kinds]
        expected = [
            tuple(none if value is None else value for value, none in zip(row, empty, strict=True))
            for row in rows
        ]
        source = CsvSource(path, delimiter=delimiter, types=types)
        assert is_same(records_of(source), expected), f"seed {seed}"


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda content: bytes(pa.compress(content, "zstd", asbytes=True)),
}


def in_members(content: bytes, compress: Callable[[bytes], bytes], random: Random) -> bytes:
    """Compress the content in one member or in several."""
    cuts = sorted(random.randint(0, len(content)) for _ in range(random.choice((0, 0, 1, 3))))
    ends = [*cuts, len(content)]
    return b"".join(compress(content[a:b]) for a, b in zip([0, *cuts], ends, strict=True))


def test_csv_that_others_have_written(tmp_path: Path, seeds: range) -> None:
    """Files have any encoding, compression and quoting, empty lines, and any order of columns."""
    for seed in seeds:
        random = Random(seed)
        names = [f"c{place}" for place in range(random.randint(2, 4))]
        encoding = random.choice(("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"))
        directory = tmp_path / f"{seed}"
        directory.mkdir()
        expected, first = [], None
        for place in range(random.randint(1, 3)):
            order = random.sample(names, len(names))
            first = first or order
            end = random.choice(("\n", "\r\n", "\r"))
            quoting: Any = random.choice((csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC))
            lines = io.StringIO()
            out = csv.writer(lines, lineterminator=end, quoting=quoting)
            out.writerow(order)
            for _ in range(random.randint(0, 20)):
                row = {name: text(random) for name in names}
                if quoting == csv.QUOTE_MINIMAL:  # Python before 3.11.9 quotes no line breaks
                    row = {name: re.sub(r"[\r\n]", "", value) for name, value in row.items()}
                out.writerow([row[name] for name in order])
                expected.append(tuple(row[name] for name in first))
                if random.random() < 0.1:
                    lines.write(end)
            suffix = random.choice(list(COMPRESSIONS))
            mark = "\ufeff" if encoding in ("utf-8", "utf-16-le") and random.random() < 0.5 else ""
            content = (mark + lines.getvalue()).encode(encoding)
            name = f"{place}.csv{suffix}"
            file = directory / (name.upper() if random.random() < 0.3 else name)
            file.write_bytes(in_members(content, COMPRESSIONS[suffix], random))
        assert records_of(CsvSource(directory, encoding=encoding)) == expected, f"seed {seed}"


def test_dirty_csv(tmp_path: Path, seeds: range, database: duckdb.DuckDBPyConnection) -> None:
    """Ragged rows, unclosed quotes and invalid text are refused, or read as another reader does."""
    accepted = 0
    for seed in seeds:
        random = Random(seed)
        pieces = [
            b",",
            b"\n",
            b"\r\n",
            b'"',
            b'""',
            b"a",
            b"1",
            b" ",
            b"\n\n",
            b"\xff",
            b"\xc3\xa9",
        ]
        weights = [9, 6, 2, 3, 1, 9, 5, 1, 1, 0.2, 1]
        body = b"".join(random.choices(pieces, weights, k=random.randint(0, 25)))
        file = tmp_path / f"{seed}.csv"
        file.write_bytes(b"x,y\n" + body)
        others: list[Any] = []
        for read in (
            lambda file=file: duckdb_rows(database, file, {"x": "VARCHAR", "y": "VARCHAR"}, ","),
            lambda file=file: pyarrow_rows(file, {"x": pa.string(), "y": pa.string()}, ","),
        ):
            try:
                rows = read()
            except (duckdb.Error, pa.ArrowInvalid, UnicodeDecodeError):
                continue
            others.append([tuple("" if value is None else value for value in row) for row in rows])
        own = read_or_refused(CsvSource(file), file)
        if own is None:
            continue
        accepted += 1
        assert own in others, f"seed {seed}: {body!r} is {own}, but {others}"
    assert accepted, "not all were refused"


# -- JSON ----------------------------------------------------------------------------------------


def json_value(random: Random, depth: int = 2) -> Any:
    kind = random.randrange(8 if depth else 5)
    if kind == 0:
        return text(random)
    if kind == 1:
        return whole(random)
    if kind == 2:
        return random.choice((0.1, 1e300, 5e-324, -0.5))
    if kind in (3, 4):
        return random.choice((None, True, False))
    if kind == 5:
        return [json_value(random, depth - 1) for _ in range(random.randint(0, 3))]
    return {text(random): json_value(random, depth - 1) for _ in range(random.randint(0, 3))}


def test_json_lines(tmp_path: Path, seeds: range, database: duckdb.DuckDBPyConnection) -> None:
    """Lines come from the sink, or from others with marks, blanks, escapes and several members."""
    for seed in seeds:
        random = Random(seed)
        values = [json_value(random) for _ in range(random.randint(1, 20))]
        write(JsonLinesSink(tmp_path / f"{seed}"), values, random)
        assert is_same(records_of(JsonLinesSource(tmp_path / f"{seed}")), values), f"seed {seed}"
        (file,) = (tmp_path / f"{seed}").glob("part*")
        of_database = database.execute(
            "SELECT json::VARCHAR FROM read_json_objects(?, format = 'newline_delimited')",
            [str(file)],
        ).fetchall()
        read = [json.loads(row[0]) if row[0] is not None else None for row in of_database]
        assert is_same(read, values), f"DuckDB, seed {seed}"

        suffix = random.choice(list(COMPRESSIONS))
        lines = random.choice(("", "\ufeff")) + "".join(
            " " * random.randrange(2)
            + json.dumps(
                value,
                ensure_ascii=random.random() < 0.5,
                separators=random.choice(((",", ":"), (" , ", "\t: "))),
            )
            + random.choice(("\n", "\r\n", "\n\n", " \n"))
            for value in values
        )
        other = tmp_path / f"{seed}.jsonl{suffix}"
        other.write_bytes(in_members(lines.encode(), COMPRESSIONS[suffix], random))
        assert is_same(records_of(JsonLinesSource(other)), values), f"seed {seed}"


# -- damage --------------------------------------------------------------------------------------


def test_a_compressed_file_that_is_cut_off(tmp_path: Path, seeds: range) -> None:
    """The source refuses a truncated file by name, unless it is cut between two members."""
    for seed in seeds:
        random = Random(seed)
        suffix = random.choice([suffix for suffix in COMPRESSIONS if suffix])
        compress = COMPRESSIONS[suffix]
        members = [
            compress(
                b"".join(b"%d\n" % random.getrandbits(30) for _ in range(random.randint(0, 400)))
            )
            for _ in range(random.randint(1, 3))
        ]
        last = members.pop()
        file = tmp_path / f"{seed}.csv{suffix}"
        file.write_bytes(b"".join(members) + last[: random.randrange(1, len(last))])
        with pytest.raises(ValueError, match=f"{file}") as raised:
            records_of(CsvSource(file, columns=["a"]))
        assert str(raised.value).startswith(str(file)), f"seed {seed}"


# -- Parquet -------------------------------------------------------------------------------------


def moment(random: Random) -> datetime.datetime:
    first, last = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)
    later = datetime.timedelta(microseconds=random.getrandbits(50))
    between = datetime.datetime(2024, 2, 29) + later
    return random.choice((first, last, between))


def decimal(random: Random) -> Decimal:
    return Decimal(random.choice((0, 1, -1, 10**17 - 1, random.getrandbits(40)))).scaleb(-2)


def some(make: Callable[[Random], Any]) -> Callable[[Random], Any]:
    return lambda random: None if random.random() < 0.15 else make(random)


ARROW_KINDS: list[tuple[pa.DataType, Callable[[Random], Any]]] = [
    (pa.int64(), whole),
    (pa.int8(), lambda random: random.randint(-128, 127)),
    (pa.uint64(), lambda random: random.choice((0, 2**64 - 1))),
    (pa.float64(), number),
    (pa.float32(), lambda random: random.choice((0.5, float("inf"), -1.25))),
    (pa.bool_(), lambda random: random.random() < 0.5),
    (pa.string(), text),
    (pa.binary(), lambda random: random.randbytes(random.randint(0, 5))),
    (pa.date32(), lambda random: moment(random).date()),
    (pa.timestamp("us"), moment),
    (pa.timestamp("ms"), lambda random: moment(random).replace(microsecond=7000)),
    (pa.timestamp("us", "UTC"), lambda random: moment(random).replace(tzinfo=UTC)),
    (pa.time64("us"), lambda random: moment(random).time()),
    (pa.decimal128(18, 2), decimal),
    (pa.list_(pa.int64()), lambda random: [some(whole)(random)] * random.randint(0, 3)),
    (
        pa.struct({"a": pa.int64(), "b": pa.string()}),
        lambda random: {"a": whole(random), "b": some(text)(random)},
    ),
    (pa.dictionary(pa.int32(), pa.string()), lambda random: random.choice(("a", "", "b\r"))),
]  # fmt: skip


def columns(random: Random) -> tuple[dict[str, pa.DataType], list[tuple[Any, ...]]]:
    """Return types and rows."""
    chosen = [random.choice(ARROW_KINDS) for _ in range(random.randint(1, 5))]
    rows = [tuple(some(make)(random) for _, make in chosen) for _ in range(random.randint(1, 40))]
    return {f"c{place}": kind for place, (kind, _) in enumerate(chosen)}, rows


def test_parquet_that_a_sink_has_written(
    tmp_path: Path, seeds: range, database: duckdb.DuckDBPyConnection
) -> None:
    for seed in seeds:
        random = Random(seed)
        kinds, rows = columns(random)
        path = tmp_path / f"{seed}"
        records = [dict(zip(kinds, row, strict=True)) for row in rows] if seed % 2 else rows
        write(ParquetSink(path, kinds), records, random)
        assert is_same(records_of(FileSource(path)), rows), f"seed {seed}"
        table = pq.read_table(path)
        assert table.schema.types == list(kinds.values()), f"seed {seed}"
        assert is_same(rows_of(table), rows), f"seed {seed}"
        of_database = database.execute("SELECT * FROM read_parquet(?)", [f"{path}/*.parquet"])
        assert is_same(of_database.fetchall(), rows), f"DuckDB, seed {seed}"


def test_parquet_that_others_have_written(
    tmp_path: Path, seeds: range, database: duckdb.DuckDBPyConnection
) -> None:
    """Pyarrow and DuckDB wrote the files, each with another order of columns."""
    for seed in seeds:
        random = Random(seed)
        kinds, rows = columns(random)
        table = table_of(kinds, rows)
        directory = tmp_path / f"{seed}"
        directory.mkdir()
        pq.write_table(
            table, directory / "a.parquet", row_group_size=random.randint(1, 40),
            use_dictionary=random.random() < 0.5, data_page_version=random.choice(("1.0", "2.0")),
        )  # fmt: skip
        second = table.select(random.sample(list(kinds), len(kinds)))
        database.register("second", second)
        database.execute(f"COPY second TO '{directory / 'b.parquet'}' (FORMAT parquet)")
        database.unregister("second")
        for split in ("file", "part"):
            own = records_of(FileSource(directory, split=split))
            assert is_same(own, rows + rows), f"seed {seed}"


def test_parquet_that_is_damaged(tmp_path: Path, seeds: range) -> None:
    """The source refuses a damaged file by name, or reads it as pyarrow does.

    Parquet has no checksum over all of the file.
    """
    refused = 0
    for seed in seeds:
        random = Random(seed)
        kinds, rows = columns(random)
        file = tmp_path / f"{seed}.parquet"
        pq.write_table(table_of(kinds, rows), file, write_page_checksum=True)
        content = bytearray(file.read_bytes())
        if random.random() < 0.5:
            del content[random.randrange(len(content)) :]
        else:
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
        file.write_bytes(content)
        own = read_or_refused(FileSource(file), file)
        if own is None:
            refused += 1
            continue
        with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            assert is_same(own, rows_of(parquet.read())), f"seed {seed}"
    assert refused, "some damage was seen"


def test_values_that_a_type_may_not_hold(tmp_path: Path, seeds: range) -> None:
    """Values of any kind in a column of any type are read back unchanged, or refused by name."""
    refused = 0
    for seed in seeds:
        random = Random(seed)
        kind, make = random.choice(ARROW_KINDS)
        other = random.choice(ARROW_KINDS)[1]
        rows = [
            (some(random.choice((make, make, other)))(random),) for _ in range(random.randint(1, 9))
        ]
        path = tmp_path / f"{seed}"
        try:
            write(ParquetSink(path, {"value": kind}), rows, random)
        except JobFailedError as error:
            if 'column "value" of record ' not in str(error):
                raise
            refused += 1
            continue
        back = [row["value"] for row in pq.read_table(path).to_pylist()]
        for (value,), read in zip(rows, back, strict=True):
            if kind == pa.float32() and isinstance(value, int | float):
                assert math.isinf(read) == math.isinf(value), f"seed {seed}"
            elif isinstance(read, datetime.datetime) or not isinstance(value, datetime.datetime):
                assert is_same(read, value) or read == value, f"seed {seed}: {value!r} is {read!r}"
            else:
                assert value == datetime.datetime.combine(read, datetime.time()), f"seed {seed}"
    assert refused, "some were refused"
