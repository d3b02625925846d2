"""The last lines that a job has printed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flinknet.cluster.control.printed_lines import PrintedLines


@given(st.lists(st.lists(st.text(max_size=5), max_size=5)), st.integers(1, 30))
def test_a_reader_gets_each_line_once_or_is_told_how_many_it_has_missed(
    written: list[list[str]], characters_max: int
) -> None:
    kept = PrintedLines(characters_max)
    everything: list[str] = []
    read, number = 0, 0
    for lines in written:
        kept.append(lines)
        everything += lines
        if len(lines) % 2:
            start, new = kept.after(number)
            assert start >= number
            assert new == everything[start:]
            assert sum(len(line) + 1 for line in new) <= characters_max
            read, number = read + len(new) + start - number, start + len(new)
    start, new = kept.after(number)
    assert read + start - number + len(new) == len(everything)
    # A number of an earlier coordinator, which had more lines: all of these are new.
    assert kept.after(len(everything) + 7) == kept.after(0)
