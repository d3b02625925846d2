"""The programs of the README, and of pages that print no output, run as printed.

``test_embedding.py`` has those that need two programs, files or columns.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

from tests.free_port import free_port
from tests.integration.cluster_runs import python_run
from tests.snippets import BLOCKS, FRAGMENTS, PROGRAMS, ROOT

PRINTED = re.compile(r"^(?:\d> )?(.*)$", re.MULTILINE)
"""A record of a print sink, without the subtask's number before it."""


def printed(program: str, directory: Path, *, with_subtasks: bool = False) -> list[str]:
    """Return the program's sorted output, by default without the subtasks' numbers."""
    run = python_run(
        "-c",
        program,
        cwd=directory,
        FLINKNET_CLUSTER_WORKERS="1",
        FLINKNET_CLUSTER_SLOTS_PER_WORKER="4",
    )
    assert run.returncode == 0, run.stderr
    lines = run.stdout.rstrip("\n")
    return sorted(lines.splitlines() if with_subtasks else PRINTED.findall(lines))


def test_every_block_is_run_here_or_in_the_tests_of_embedding() -> None:
    tested = (ROOT / "tests" / "integration" / "test_embedding.py").read_text()
    here = {"totals.py", "count.py", "counts.py", "means.py"}
    assert len(PROGRAMS) + len(FRAGMENTS) == len(BLOCKS)
    assert {name for name in PROGRAMS if f'"{name}"' not in tested} == here
    starts = [fragment.partition("(")[0] for fragment in FRAGMENTS]
    assert starts == [
        "async with NetworkEnvironment",
        "env.set_state_backend",
        "prices = AsyncDataStream.unordered_wait",
        "env.register_type",
    ]


def test_the_first_program_prints_the_output_in_the_readme(tmp_path: Path) -> None:
    """The lines of one subtask are in order; those of the two may come in any order."""
    (said,) = re.findall(r"```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert printed(PROGRAMS["totals.py"], tmp_path, with_subtasks=True) == sorted(said.splitlines())


def test_the_two_ends_of_an_exchange(tmp_path: Path) -> None:
    """They run side by side, as printed but for the port."""
    producer, consumer = FRAGMENTS[0].replace("7001", str(free_port())).split("\n\n")
    program = f"""
import asyncio
from flinknet import NetworkEnvironment

async def produce():
{indent(producer, "    ")}

async def consume():
{indent(consumer, "    ")}

async def main():
    await asyncio.gather(consume(), produce())

asyncio.run(main())
"""
    assert printed(program, tmp_path) == ["sensor-1 21.5"]


def test_counts(tmp_path: Path) -> None:
    assert printed(PROGRAMS["count.py"], tmp_path) == sorted(f"({key}, 100)" for key in range(1000))


def test_counts_with_checkpoints(tmp_path: Path) -> None:
    """The program runs as printed, but with fewer records; all of them would take 20 s."""
    program = PROGRAMS["counts.py"].replace("count=2_000_000", "count=20_000")
    assert printed(program, tmp_path) == sorted(f"({key}, 20)" for key in range(1000))


def test_means_of_windows(tmp_path: Path) -> None:
    records = printed(PROGRAMS["means.py"], tmp_path)
    windows = {int(record.split(", ")[1]) for record in records}
    assert windows == set(range(-60_000, 1_000_000, 60_000))
    assert len(set(records)) == len(records)


def test_state_in_rocksdb(tmp_path: Path) -> None:
    program = (
        PROGRAMS["count.py"]
        .replace("import GeneratorSource", "import EmbeddedRocksDBStateBackend, GeneratorSource")
        .replace("env.set_parallelism(4)\n", f"env.set_parallelism(1)\n{FRAGMENTS[1]}")
        .replace("count=100_000", "count=5_000")
    )
    assert FRAGMENTS[1] in program
    assert printed(program, tmp_path) == sorted(f"({key}, 5)" for key in range(1000))


def test_requests_to_others(tmp_path: Path) -> None:
    program = f"""
from flinknet.datastream import AsyncDataStream, StreamExecutionEnvironment, Time

async def look_up_price(order):
    return [order * 2]

orders = StreamExecutionEnvironment.get_execution_environment().from_collection([1, 2, 3])
{FRAGMENTS[2]}
for price in sorted(prices.execute_and_collect()):
    print(price)
"""
    assert printed(program, tmp_path) == ["2", "4", "6"]


def test_registered_types(tmp_path: Path) -> None:
    environment, writing, reading = FRAGMENTS[3].splitlines()
    program = f"""
import asyncio
from dataclasses import dataclass
from enum import Enum

from flinknet import NetworkEnvironment
from flinknet.datastream import StreamExecutionEnvironment

Colour = Enum("Colour", "RED GREEN")

@dataclass(frozen=True)
class Reading:
    colour: Colour

async def main():
    async with NetworkEnvironment() as environment, NetworkEnvironment() as other:
        async def write(environment):
            async with {writing.partition("#")[0].strip()} as writer:
                await writer.emit(Reading(Colour.RED))
        written = asyncio.create_task(write(other))
        address = other.address
        async with {reading} as reader:
            print([record async for record in reader])
        await written

env = StreamExecutionEnvironment.get_execution_environment()
{environment}
env.from_collection([Reading(Colour.GREEN)]).rebalance().map(lambda reading: reading).print()
env.execute()
asyncio.run(main())
"""
    assert printed(program, tmp_path) == [
        "Reading(colour=<Colour.GREEN: 2>)",
        "[Reading(colour=<Colour.RED: 1>)]",
    ]
