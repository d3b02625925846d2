"""Parts of Arrow and Parquet files, and the check that files have the same columns.

``test_arrow_files.py`` tests how a source reads them.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinknet.datastream.connectors.arrow_units import UnitReader, parts_of
from flinknet.datastream.connectors.input_files import UnreadableError


def written(file: Path, rows: int) -> Path:
    numbers = pa.table({"id": pa.array(range(rows), pa.int64())})
    if file.suffix == ".parquet":
        pq.write_table(numbers, file, row_group_size=10, write_page_checksum=True)
        return file
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_file(out, numbers.schema) as writer:
        writer.write_table(numbers, max_chunksize=10)
    return file


def reader(first: Path, *, shares: bool = False) -> UnitReader:
    return UnitReader(first, None, rows_max=4, unique_names=False, same_types=False, shares=shares)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_parts_are_read_one_by_one_and_all_together(tmp_path: Path, suffix: str) -> None:
    file = written(tmp_path / f"a.{suffix}", 25)
    assert parts_of(file) == 3
    parts = [
        [batch.column(0).to_pylist() for batch in reader(file).read(file, part)]
        for part in (0, 2, None)
    ]
    assert [[len(batch) for batch in part] for part in parts[:2]] == [[4, 4, 2], [4, 1]]
    assert [list(chain(*part)) for part in parts] == [
        list(range(10)), list(range(20, 25)), list(range(25)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("shares", "columns"),
    [
        (False, {"id": pa.array([1], pa.int64()), "texts": pa.array([["a"]])}),
        (True, {"text": pa.array(["a"])}),
    ],
    ids=["lists", "shared texts"],
)
def test_no_row_of_a_damaged_footer_is_left_out_in_silence(
    tmp_path: Path, shares: bool, columns: dict[str, pa.Array]
) -> None:
    """For any flipped bit the file is refused, or read exactly as pyarrow reads all of it at
    once."""
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), file, store_schema=False, write_page_checksum=True)
    whole = file.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    refused = 0
    for place in range(len(whole) - 8 - length, len(whole) - 8):
        for bit in range(8):
            content = bytearray(whole)
            content[place] ^= 1 << bit
            file.write_bytes(content)
            try:
                own = [batch.to_pydict() for batch in reader(file, shares=shares).read(file, None)]
            except UnreadableError:
                refused += 1
                continue
            with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
                expected = parquet.read().to_pydict()
            read = {name: list(chain(*(batch[name] for batch in own))) for name in expected}
            assert read == expected, (place, bit)
    assert refused


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_a_first_file_that_is_damaged_is_named_by_each_subtask(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"nothing")
    second = written(tmp_path / "b.parquet", 1)
    with pytest.raises(UnreadableError, match=f"{tmp_path / name}: "):
        list(reader(tmp_path / name).read(second, None))
    with pytest.raises(UnreadableError, match=f"{tmp_path / name}: "):
        parts_of(tmp_path / name)


def test_a_page_whose_checksum_is_wrong(tmp_path: Path) -> None:
    file = written(tmp_path / "a.parquet", 10)
    chunk = pq.read_metadata(file).row_group(0).column(0)
    content = bytearray(file.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 0x01
    file.write_bytes(content)
    with pytest.raises(UnreadableError, match=f"{file}: "):
        list(reader(file).read(file, None))
