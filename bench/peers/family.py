"""The family ``peers`` as the command line uses it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path

from rich.console import Console

from bench.harness.contest import Entrant, print_absences, run_case
from bench.harness.family import Progress, Selection, chosen, summaries
from bench.harness.row import Row, ratio
from bench.harness.system import SUBJECT
from bench.harness.table import (
    CPU,
    RATE_COLUMNS,
    Column,
    format_times,
    print_rows,
    print_table,
)
from bench.peers import pure
from bench.peers.cases import CASES, PING_PONG
from bench.peers.figure import draw_cases
from bench.peers.roster import FLINKNET, PEERS

__all__ = ["PeersFamily"]

LATENCY_KEY = (
    "trips/s: round trips of one record per second, median of the interleaved runs. p50, p99: "
    "microseconds of a round trip, medians of the runs. record / row, and so on: the p50 of that "
    "variant of flinknet over the row's, so less than 1 is faster."
)


PURE_KEY = (
    "pure: as plain Python, with nothing compiled. records/s, low, high, CPU s/M: as above. "
    "compiled / row: the median records/s of the same form compiled over the row's."
)


class PeersFamily:
    """One producer, one consumer, and all the ways to connect them."""

    name = "peers"
    summary = "flinknet beside Flink and what Python has, each at its best"

    def __init__(self) -> None:
        self.cases = summaries(CASES)
        self.systems = summaries(PEERS)

    def run(self, selection: Selection, progress: Progress) -> list[Row]:
        """Measure flinknet and the chosen peers, case by case."""
        peers = [FLINKNET, *chosen(PEERS, selection.against)]
        contests = [
            (case, [entered for peer in peers for entered in peer.enter(case)])
            for case in chosen(CASES, selection.cases)
        ]
        entrants = [each for _, entered in contests for each in entered]
        progress.expect(selection.plan.runs * sum(isinstance(each, Entrant) for each in entrants))
        return [
            row
            for case, entered in contests
            for row in run_case(self.name, case, entered, selection, progress)
        ]

    def print(self, rows: Sequence[Row], console: Console) -> None:
        """Print all tables of the family.

        Cases with the same variants of flinknet share a table of throughput. Then follow compiled
        flinknet beside plain Python, the round trips, and the absences with their reasons.
        """
        ran = [row for row in rows if row.runs and not pure.is_variant_name(row.variant)]
        plain = [row for row in rows if row.runs and pure.is_variant_name(row.variant)]
        round_trips = [row for row in ran if row.case == PING_PONG.name]
        for cases in _cases_by_variants(row for row in ran if row.case != PING_PONG.name):
            print_rows([row for row in ran if row.case in cases], console)
        if plain:
            _print_plain(plain, ran, console)
        if round_trips:
            _print_round_trips(round_trips, console)
        print_absences(rows, console)

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """Draw a panel for each case."""
        draw_cases([row for row in rows if row.runs], path)


def _cases_by_variants(rows: Iterable[Row]) -> list[list[str]]:
    """Group the cases by flinknet's variants, so that no table has unused columns."""
    variants: dict[str, list[str]] = {}
    for row in rows:
        own = variants.setdefault(row.case, [])
        if row.system == SUBJECT:
            own.append(row.variant)
    cases: dict[tuple[str, ...], list[str]] = {}
    for case, own in variants.items():
        cases.setdefault(tuple(own), []).append(case)
    return list(cases.values())


def _print_plain(plain: Sequence[Row], ran: Sequence[Row], console: Console) -> None:
    """Print each form of flinknet compiled, and below it the same form as plain Python."""
    of_plain = {(row.case, row.variant): row for row in plain}
    pairs = [
        (row, other)
        for row in ran
        if row.system == SUBJECT
        and (other := of_plain.get((row.case, pure.variant_name(row.variant))))
    ]
    compiled = {id(other): row for row, other in pairs}

    def gained(row: Row) -> str:
        return format_times(ratio(compiled[id(row)], row)) if id(row) in compiled else ""

    columns = (*RATE_COLUMNS, CPU, Column("compiled\n/ row", gained, highlight=True))
    rows = [row for pair in pairs for row in pair]
    print_table(rows, columns, PURE_KEY, console, name="system", label=attrgetter("contestant"))


def _print_round_trips(rows: Sequence[Row], console: Console) -> None:
    trips, low, high = RATE_COLUMNS
    columns = [
        Column("trips/s", trips.cell),
        low,
        high,
        *(Column(f"{name} µs", partial(_latency, name)) for name in ("p50", "p99")),
        *(
            Column(
                "\n".join([*own.variant.split(), "/ row"]),
                partial(_ratio_of_p50, own),
                highlight=True,
            )
            for own in rows
            if own.system == SUBJECT
        ),
    ]
    print_table(
        rows,
        columns,
        LATENCY_KEY,
        console,
        name="system",
        label=attrgetter("contestant"),
    )


def _latency(percentile: str, row: Row) -> str:
    assert row.latency_us is not None
    return f"{row.latency_us[percentile]:,.0f}"


def _ratio_of_p50(own: Row, row: Row) -> str:
    if row.system == SUBJECT or not (own.latency_us and row.latency_us):
        return ""
    return f"{own.latency_us['p50'] / row.latency_us['p50']:.2f}x"
