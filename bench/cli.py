"""The command line: ``python -m bench list``, ``run`` and ``figure``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn, Self

import typer
from rich import box
from rich import progress as rich_progress
from rich.console import Console
from rich.table import Table

from bench.errors import BenchError, UsageError
from bench.families import FAMILIES, find_family
from bench.harness.family import Family, Selection, choose
from bench.harness.machine import BUSY_LOAD, describe, machine_facts
from bench.harness.pinning import choose_pinning
from bench.harness.row import Row, read_json, write_json
from bench.harness.system import SUBJECT
from bench.harness.trial import FULL, QUICK

__all__ = ["main"]

OUTPUT = Path("bench-output")
"""Default directory of JSON files and figures."""

RESULTS = Path(__file__).parent / "results"
"""Directory of the stored rows: one JSON file for each family."""

COLUMNS_MIN = 132

_HOW_TO_STORE = "measure it with `run FAMILY --json DIR/FAMILY.json`, or name another --from"

app = typer.Typer(
    help="Benchmarks of flinknet beside other systems.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 success, 1 a run failed or did not verify, 2 misused."""
    try:
        app(args=arguments, prog_name="python -m bench")
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    sys.exit(0)


@app.command("list")
def list_families() -> None:
    """Show the families, their cases, and the systems to compare with."""
    console = _console()
    for family in FAMILIES.values():
        console.print(f"[bold]{family.name}[/]: {family.summary}", highlight=False)
        table = Table(box=box.SIMPLE, show_header=False)
        for kind, named in (("case", family.cases), ("against", family.systems)):
            for number, (name, summary) in enumerate(named.items()):
                table.add_row(kind if number == 0 else "", f"[bold]{name}[/]", summary)
        console.print(table)


@app.command("run")
def run_family(
    family: Annotated[str, typer.Argument(help="What to measure; see `list`.")],
    case: Annotated[str | None, typer.Option(metavar="C,...", help="Only these cases.")] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="SYSTEM,...",
            help=f"Only these systems beside flinknet; `{SUBJECT}` measures it alone.",
        ),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(metavar="N", help=f"Runs of each ({FULL.runs}; quick: {QUICK.runs})."),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help=f"Runs of {QUICK.seconds:g} s in place of {FULL.seconds:g} s."
        ),
    ] = False,
    json: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"Where the rows go ({OUTPUT}/FAMILY.json); the figure goes beside it, as PNG.",
        ),
    ] = None,
) -> None:
    """Measure a family: a table here, the rows as JSON, a figure as PNG beside it."""
    chosen = find_family(family)
    selection = Selection(
        cases=choose(f"case of {family}", case, chosen.cases),
        against=choose("system", against, {SUBJECT: "", **chosen.systems}),
        plan=replace(QUICK if quick else FULL, **({} if runs is None else {"runs": runs})),
        pinning=choose_pinning(),
    )
    if selection.plan.runs < 1:
        raise UsageError(f"--runs is {runs}: choose 1 or more")
    path = _output_path(json, family)
    machine = machine_facts(selection.pinning)
    console, errors = _console(), Console(stderr=True)
    console.print(describe(machine), highlight=False)
    if machine["load_average"][0] > BUSY_LOAD:
        errors.print(
            "Other programs are busy here: the results will be disturbed.",
            style="yellow",
        )
    with _RunProgress(errors) as progress:
        rows = chosen.run(selection, progress)
    chosen.print(rows, console)
    write_json(machine, rows, path)
    console.print(f"Rows in {path}", highlight=False)
    _draw(chosen, rows, path.with_suffix(".png"), console)
    _require_verified(rows)


@app.command("figure")
def draw_figures(
    families: Annotated[
        list[str] | None, typer.Argument(metavar="FAMILY...", help="All that have rows there.")
    ] = None,
    case: Annotated[
        str | None, typer.Option(metavar="C,...", help="Only these cases of one family.")
    ] = None,
    results: Annotated[
        Path,
        typer.Option(
            "--from",
            metavar="DIR",
            show_default=False,
            help="Where the FAMILY.json are (bench/results).",
        ),
    ] = RESULTS,
    to: Annotated[
        Path,
        typer.Option(
            metavar="DIR", show_default=False, help=f"Where the FAMILY.png go ({OUTPUT})."
        ),
    ] = OUTPUT,
) -> None:
    """Draw the figures of families from their rows, without measuring anything."""
    chosen = [find_family(name) for name in families or _stored(results)]
    if case is not None and len(chosen) != 1:
        raise UsageError(f"--case is {case!r}: name the one family whose cases these are")
    drawings = [(family, _stored_rows(family, case, results)) for family in chosen]
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--to is {to}: name a directory ({error.strerror})") from error
    console = _console()
    for family, rows in drawings:
        _draw(family, rows, to / f"{family.name}.png", console)


def _console() -> Console:
    """Return a console for standard output that is always wide enough for the tables."""
    return Console(width=max(Console().width, COLUMNS_MIN))


def _output_path(json: Path | None, family: str) -> Path:
    """Return the path of the JSON file; refuse an unusable path before anything is measured."""
    if json is None:
        OUTPUT.mkdir(exist_ok=True)
        return OUTPUT / f"{family}.json"
    if json.is_dir() or not json.parent.is_dir():
        raise UsageError(f"--json is {json}: name a file in a directory that exists")
    if json.suffix == ".png":
        raise UsageError(f"--json is {json}: that is where the figure would go")
    return json


def _stored(results: Path) -> list[str]:
    """Return the families with stored rows, in the order of ``list``."""
    stored = [name for name in FAMILIES if (results / f"{name}.json").exists()]
    if not stored:
        raise UsageError(f"there are no rows in {results}: {_HOW_TO_STORE}")
    return stored


def _stored_rows(family: Family, case: str | None, results: Path) -> list[Row]:
    """Return the rows of a family to draw. Raises UsageError if there are none."""
    path = results / f"{family.name}.json"
    if not path.exists():
        raise UsageError(f"there are no rows of {family.name} in {results}: {_HOW_TO_STORE}")
    _, rows = read_json(path)
    if case is None:
        return rows
    measured = {row.case: row for row in rows if row.case in family.cases}
    cases = choose(f"stored case of {family.name}", case, measured)
    return [row for row in rows if row.case in cases]


def _draw(family: Family, rows: Sequence[Row], path: Path, console: Console) -> None:
    """Write the figure and print its path; print a note instead if no row has runs."""
    if any(row.runs for row in rows):
        family.draw(rows, path)
        console.print(f"Figure in {path}", highlight=False)
    else:
        console.print(f"No figure of {family.name}: nothing ran", highlight=False)


def _require_verified(rows: Sequence[Row]) -> None:
    """Raise BenchError for unverified or failed runs; an absent system is no failure."""
    wrong = [f"{row.case}, {row.contestant}" for row in rows if row.runs and not row.verified]
    if wrong:
        raise BenchError(f"count or checksum of the two sides differ: {'; '.join(wrong)}")
    failed = [f"{row.case}, {row.contestant}" for row in rows if "failed" in row.parameters]
    if failed:
        raise BenchError(f"runs failed, see above: {'; '.join(failed)}")


class _RunProgress:
    """A progress bar on standard error; rich hides it if that is no terminal."""

    def __init__(self, console: Console) -> None:
        self._progress = rich_progress.Progress(
            rich_progress.BarColumn(),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TextColumn("{task.description}"),
            console=console,
            transient=True,
        )
        self._runs = 0
        self._task = self._progress.add_task("", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def expect(self, runs: int) -> None:
        """Add to the expected number of runs."""
        self._runs += runs
        self._progress.update(self._task, total=self._runs)

    def begin(self, run: str) -> None:
        """Show the run that begins."""
        self._progress.update(self._task, description=run)

    def end(self) -> None:
        """Advance the bar."""
        self._progress.advance(self._task)
