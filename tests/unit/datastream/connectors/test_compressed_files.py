"""Compressed files: all of their members are read, or none."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest

from flinknet.datastream import TextFileSource
from flinknet.datastream.connectors.compressed_files import kind_of, open_decompressed
from flinknet.datastream.connectors.input_files import UnreadableError
from flinknet.errors import ConfigurationError
from tests.unit.operators.harness import context


def zstandard(content: bytes) -> bytes:
    compressed: bytes = pyarrow.compress(content, "zstd", asbytes=True)
    return compressed


COMPRESS = [
    ("a.csv.gz", gzip.compress),
    ("a.csv.GZIP", gzip.compress),
    ("a.csv.bz2", bz2.compress),
    ("a.csv.xz", lzma.compress),
    ("a.csv.zst", zstandard),
]


def lines_of(file: Path) -> list[str]:
    return [line for batch in TextFileSource(file).read_share(context()) for line in batch]


def test_a_file_that_is_not_compressed(tmp_path: Path) -> None:
    (tmp_path / "a.CSV").write_bytes(b"text")
    with open_decompressed(tmp_path / "a.CSV") as content:
        assert content.read() == b"text"
    assert kind_of(tmp_path / "a.CSV") == ".csv"


@pytest.mark.parametrize(("name", "compress"), COMPRESS, ids=[name for name, _ in COMPRESS])
def test_all_members_are_read(
    tmp_path: Path, name: str, compress: Callable[[bytes], bytes]
) -> None:
    file = tmp_path / name
    text = b"".join(b"%d\n" % number for number in range(30_000))
    file.write_bytes(compress(text) + compress(b"") + compress(b"last\n"))
    assert lines_of(file) == [*text.decode().split(), "last"]
    assert kind_of(file) == ".csv"
    file.write_bytes(compress(b""))
    assert lines_of(file) == []


@pytest.mark.parametrize(("name", "compress"), COMPRESS, ids=[name for name, _ in COMPRESS])
def test_a_file_is_refused_by_name_if_it_is_damaged_anywhere(
    tmp_path: Path, name: str, compress: Callable[[bytes], bytes]
) -> None:
    """The damage may be in its first member or in the next one: cut off, changed, or followed by
    other bytes."""
    file = tmp_path / name
    member = compress(b"".join(b"%d\n" % number for number in range(1_000)))
    changed = bytearray(member)
    changed[len(changed) // 2] ^= 0xFF
    damaged = [member[:-9], b"plain text, not compressed"]
    if compress is not zstandard:  # pyarrow writes no checksum of the content
        damaged.append(bytes(changed))
    for content in [b"", *damaged, *(member + more for more in [*damaged, member[:3]])]:
        file.write_bytes(content)
        with pytest.raises(UnreadableError) as raised:
            lines_of(file)
        assert str(raised.value).startswith(f"{file}"), content[:20]


def test_zeros_between_the_streams_of_xz(tmp_path: Path) -> None:
    file = tmp_path / "a.xz"
    file.write_bytes(lzma.compress(b"1\n") + bytes(8) + lzma.compress(b"2\n") + bytes(4))
    assert lines_of(file) == ["1", "2"]


def test_a_compression_that_no_source_knows(tmp_path: Path) -> None:
    (tmp_path / "a.txt.zip").touch()
    with pytest.raises(
        ConfigurationError, match=r"a\.txt\.zip has a compression that sources do not"
    ):
        TextFileSource(tmp_path / "a.txt.zip")
