"""A job whose workers are killed and stopped again and again, and each of its records looked at."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinknet.cluster import run_job
from flinknet.config import FlinknetConfig, NetworkConfig
from flinknet.datastream import (
    CollectionSource,
    CollectSink,
    GeneratorSource,
    StreamExecutionEnvironment,
    WatermarkStrategy,
)
from tests.chaos.audited_flights import (
    FAULTS,
    Audit,
    AuditedFlights,
    Numbered,
    aggregates_of,
    flight,
    id_of,
    route,
)
from tests.chaos.kill_loop import SETTINGS, KillLoop, Setting, print_table

pytestmark = pytest.mark.timeout(300)

RECORDS = 60_000
FAULTS_PER_JOB = 20


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
async def test_after_20_faults_no_record_is_lost_duplicated_out_of_order_or_changed(
    tmp_path: Path, setting: Setting
) -> None:
    """Workers are killed, or stopped for longer than anybody waits for them: a zombie that comes
    back then changes nothing."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    job = AuditedFlights(GeneratorSource(flight, RECORDS), RECORDS, tmp_path, FAULTS_PER_JOB)
    outcome = await KillLoop(setting, job, random.Random(seed)).run()
    print_table([outcome])
    assert job.found() == {}
    assert outcome.rows == aggregates_of(map(flight, range(RECORDS)))
    assert len(job.restored()) >= FAULTS_PER_JOB // 4


def lose(records: list[Any]) -> None:
    del records[100]


def duplicate(records: list[Any]) -> None:
    records.insert(110, records[100])


def overtake(records: list[Any]) -> None:
    pair = records[100][1:3]
    later = next(place for place in range(101, 500) if records[place][1:3] == pair)
    records[100], records[later] = records[later], records[100]


def change(records: list[Any]) -> None:
    *others, load, checksum = records[100]
    records[100] = (*others, load[:-1] + b"?", checksum)


@pytest.mark.parametrize(
    ("harm", "fault", "seen"),
    [
        (lose, "lost", {"lost": 1}),
        (duplicate, "duplicated", {"duplicated": 1}),
        (overtake, "out_of_order", {"lost": 1, "out_of_order": 1}),
        (change, "corrupt", {"corrupt": 1}),
    ],
)
def test_the_audit_finds(
    tmp_path: Path, harm: Callable[[list[Any]], None], fault: str, seen: Counter[str]
) -> None:
    """So that finding nothing means something."""
    numbered = Numbered(tmp_path / "restored")
    records = list(map(numbered.map, map(flight, range(1_000))))
    harm(records)
    environment = StreamExecutionEnvironment().set_parallelism(1)
    by_id = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(id_of)
    stream = environment.from_source(CollectionSource(records))
    audited = stream.assign_timestamps_and_watermarks(by_id).key_by(route)
    audited.process(Audit(tmp_path / "found")).sink_to(CollectSink()).name("rows")
    small = FlinknetConfig(network=NetworkConfig(network_memory_bytes=8 * 2**20))
    result = run_job(environment.job_graph("audit"), small)
    job = AuditedFlights(CollectionSource(()), 0, tmp_path, 0)
    assert job.found() == seen
    rows = [dict(zip(FAULTS, row[-len(FAULTS) :], strict=True)) for row in result.collected["rows"]]
    assert {name: sum(row[name] for row in rows) for name in FAULTS} == {
        **dict.fromkeys(FAULTS, 0),
        fault: 1,
    }
