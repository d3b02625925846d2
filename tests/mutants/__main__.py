"""Plant a seeded sample of small faults in the package, and run the tests that cover each of them.

    python -m tests.mutants [--seed 1] [--number 500] [PATH ...]

At least 95 % of the faults must be found. The rest are printed, with the lines before and after;
one that changes nothing that a caller could see is listed in ``accepted.toml``, with the reason.

mutmut 3 does not plant in decorated functions or outside functions, and has no samples; cosmic-ray
starts a process for each fault. Here a fault costs a fork, and the tests until the first failure.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.mutants.covering import Covering, Test, own_test_file
from tests.mutants.forks import Ended, Tell, run_in_forks
from tests.mutants.planting import Mutant, mutants_of, sample
from tests.mutants.running import plant, run_tests, warm_up

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "mutants"
ACCEPTED = Path(__file__).with_name("accepted.toml")
ENOUGH = 95.0
NOTICED = ("found", "timed out")

PACKAGES = (
    "flinknet/buffer",
    "flinknet/wire",
    "flinknet/partition",
    "flinknet/consumer",
    "flinknet/connection",
    "flinknet/records",
    "flinknet/checkpoint",
    "flinknet/operators",
    "flinknet/state",
    "flinknet/cluster/coordinator/jobs",
    "flinknet/cluster/coordinator/checkpoints",
    "flinknet/cluster/coordinator/workers",
)
TESTS = (
    *(f"tests/unit/{package.partition('/')[2]}" for package in PACKAGES),
    "tests/unit/cluster/coordinator",
    "tests/unit/datastream",
    "tests/unit/graph",
    "tests/unit/net",
    "tests/unit/runtime",
    "tests/contract",
    "tests/model",
)
BUDGET_S = 15.0
"""Time for the tests of other modules than the changed one, as they take without a fault."""


@dataclass(frozen=True)
class Result:
    mutant: Mutant
    verdict: str
    """``found``, ``timed out``, ``survived`` or ``accepted``."""
    tests: int
    seconds: float
    by: Test | None = None
    """The last test that ran."""


def main(arguments: list[str]) -> int:
    options = parsed(arguments)
    os.environ["FLINKNET_PURE"] = "1"
    files = sorted({file for path in options.paths for file in modules_in(path)})
    accepted = tomllib.loads(ACCEPTED.read_text()).get("accepted", [])
    mutants = sample(files, ROOT, options.seed, options.number)
    warm_up()
    roots = options.tests
    if options.own:
        own = {own_test_file(mutant.file) for mutant in mutants}
        roots = sorted(file for file in own if (ROOT / file).exists())
    covering = Covering(ROOT, KEPT, "flinknet", roots)
    for line in covering.measure(options.processes):
        print(line, flush=True)
    left_out, lines = controlled(mutants, covering, options.processes)
    print(*lines, sep="\n", end="\n" if lines else "", flush=True)
    results: list[Result] = []
    reasons = {name_of(one): one["reason"] for one in accepted}
    for result in run(mutants, covering, left_out, options.processes, reasons.keys()):
        results.append(result)
        if result.verdict == "survived":
            ran = f"{result.tests} tests pass" if result.tests else "no test runs it"
            print(f"\n{result.mutant}\n    {ran}", flush=True)
        elif options.verbose:
            by = result.by.name if result.by is not None else "the import of its tests"
            print(f"\n{result.mutant}\n    {result.verdict} by {by}", flush=True)
    doubtful = failing_without(results, options.processes)
    for number, result in enumerate(results):
        if result.by is not None and result.by in doubtful:
            print(f"\n{result.mutant}\n    does not count: {result.by.name} fails without it, too")
            results[number] = replace(result, verdict="survived")
    stale = stale_entries(accepted, results)
    print("", *table(results), *stale, sep="\n")
    return 0 if score(results) >= ENOUGH and not stale else 1


def parsed(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("paths", nargs="*", default=PACKAGES, help="packages or modules to change")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--number", type=int, default=500, help="of faults (default: 500)")
    parser.add_argument("--processes", type=int, default=2, help="side by side (default: 2)")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="folders of tests to run")
    parser.add_argument("--own", action="store_true", help="run only the modules' own test files")
    parser.add_argument("--verbose", action="store_true", help="print the faults found, too")
    options = parser.parse_args(arguments)
    options.paths = options.paths or PACKAGES
    for path in [*options.paths, *options.tests]:
        if not (ROOT / path).exists():
            parser.error(f"{path} is not there; name a path below {ROOT}")
    for path in options.paths:
        if not Path(path).as_posix().startswith("flinknet/"):
            parser.error(f"{path} is not a part of flinknet/")
    if options.number < 1 or options.processes < 1:
        parser.error("--number and --processes are at least 1")
    return options


def modules_in(path: str) -> Iterator[str]:
    found = ROOT / path
    for module in [found] if found.is_file() else sorted(found.rglob("*.py")):
        yield module.relative_to(ROOT).as_posix()


# -- running


def controlled(
    mutants: list[Mutant], covering: Covering, processes: int
) -> tuple[set[str], list[str]]:
    """Run the tests of each module's faults without a fault; return those that fail, to leave out.

    A test that fails in this order, or in this process, would find every fault.
    """
    left_out: set[str] = set()
    lines: list[str] = []
    modules: dict[str, dict[str, Test]] = defaultdict(dict)
    for mutant in mutants:
        for test in covering.tests_of(mutant, (), 0.0):
            modules[mutant.file][test.name] = test
    while modules:
        works = (
            (file, partial(run_tests, list(tests.values()), ROOT))
            for file, tests in modules.items()
        )
        failed = []
        for file, ended in run_in_forks(works, processes, KEPT / "logs"):
            if ended.timed_out or ended.said.get("found", True):
                at = ended.said.get("at", "")
                failed.append(file)
                lines.append(f"left out for {file}: without a fault fails {at}")
                left_out.update([at] if at in modules[file] else modules[file])
        modules = {
            file: {name: test for name, test in modules[file].items() if name not in left_out}
            for file in failed
        }
        modules = {file: tests for file, tests in modules.items() if tests}
    return left_out, lines


def run(
    mutants: Iterable[Mutant],
    covering: Covering,
    left_out: set[str],
    processes: int,
    accepted: Iterable[tuple[str, ...]],
) -> Iterator[Result]:
    """Run the tests that cover each fault until one fails."""
    tests = {}
    works: list[tuple[Mutant, Callable[[Tell], None]]] = []
    for mutant in mutants:
        tests[mutant] = covering.tests_of(mutant, left_out, BUDGET_S)
        if tests[mutant]:
            works.append((mutant, partial(run_planted, mutant, tests[mutant], ROOT)))
        else:
            yield Result(mutant, "survived", 0, 0.0)
    for mutant, ended in run_in_forks(works, processes, KEPT / "logs"):
        verdict = verdict_of(ended)
        if verdict == "survived" and mutant.name[:4] in accepted:
            verdict = "accepted"
        by = next((test for test in tests[mutant] if test.name == ended.said.get("at")), None)
        yield Result(mutant, verdict, len(tests[mutant]), ended.seconds, by)


def run_planted(mutant: Mutant, tests: list[Test], root: Path, tell: Tell) -> None:
    path = root / mutant.file
    plant(path, mutant.planted(path.read_bytes()))
    run_tests(tests, root, tell)


def failing_without(results: Iterable[Result], processes: int) -> set[Test]:
    """Run the tests of other modules that have found a fault without it; return those that fail.

    The tests of a module's own file have run before.
    """
    tests = {
        result.by
        for result in results
        if result.by is not None
        and result.verdict in NOTICED
        and result.by.file != own_test_file(result.mutant.file)
    }
    works = ((test, partial(run_tests, [test], ROOT)) for test in tests)
    ended = run_in_forks(works, processes, KEPT / "logs")
    return {test for test, how in ended if verdict_of(how) in NOTICED}


def verdict_of(ended: Ended) -> str:
    if ended.timed_out:
        return "timed out"
    # A process that ends without a word was ended by the fault.
    return "found" if ended.said.get("found", True) else "survived"


# -- the accepted ones, and the table


def name_of(entry: dict[str, str]) -> tuple[str, ...]:
    return (entry["file"], entry.get("inside", ""), entry["before"], entry["after"])


def stale_entries(accepted: list[dict[str, str]], results: list[Result]) -> list[str]:
    """Return a line for each entry whose fault cannot be planted any more, or is found by now."""
    found = {
        result.mutant.name[:4] for result in results if result.verdict in ("found", "timed out")
    }
    lines = []
    for entry in accepted:
        path, name = ROOT / entry["file"], name_of(entry)
        known = mutants_of(entry["file"], path.read_bytes()) if path.is_file() else []
        what = f"{ACCEPTED.name}: {entry['file']} in {entry.get('inside', '')}: {entry['after']}"
        if name not in {mutant.name[:4] for mutant in known}:
            lines.append(f"{what}: there is no such fault any more: take it out")
        elif name in found:
            lines.append(f"{what}: a test finds it: take it out")
    return lines


def package_of(file: str) -> str:
    for package in PACKAGES:
        if file.startswith(f"{package}/"):
            return package
    return Path(file).parent.as_posix()


def score(results: list[Result]) -> float:
    """Return the percentage of faults that were found, of those that are not accepted."""
    counts = Counter(result.verdict for result in results)
    found = counts["found"] + counts["timed out"]
    return 100.0 * found / max(1, found + counts["survived"])


def table(results: list[Result]) -> Iterator[str]:
    yield f"{'package':42} found  timed out  survived  accepted   score"
    groups: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[package_of(result.mutant.file)].append(result)
    for package, some in [*sorted(groups.items()), ("all", results)]:
        counts = Counter(result.verdict for result in some)
        yield (
            f"{package:42} {counts['found']:5}  {counts['timed out']:9}  {counts['survived']:8}  "
            f"{counts['accepted']:8}  {score(some):5.1f} %"
        )
    took = sorted(result.seconds for result in results if result.verdict == "found")
    if took:
        yield f"a fault that is found takes {took[len(took) // 2]:.1f} s (median)"


if __name__ == "__main__":
    # So that the forks end, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    began = time.monotonic()
    status = main(sys.argv[1:])
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(status)
