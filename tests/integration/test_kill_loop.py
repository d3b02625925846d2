"""A job through kills and stops of its workers and coordinator, with an audit of each record."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from flinknet.cluster import run_job
from flinknet.config import ClusterConfig, FlinknetConfig, NetworkConfig
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

RECORDS = 120_000
FAULTS_PER_JOB = 7
CONFIG = FlinknetConfig(
    network=NetworkConfig(network_memory_bytes=8 * 2**20), cluster=ClusterConfig(workers=1)
)


@pytest.mark.parametrize("setting", [each for each in SETTINGS if not each.only_long], ids=str)
async def test_faults_lose_duplicate_reorder_and_change_no_record(
    tmp_path: Path, setting: Setting
) -> None:
    """Faults change no record, and a zombie that returns changes nothing.

    Workers are killed, or stopped for longer than any timeout. The coordinator is killed and
    replaced. The job continues with more and with fewer keyed subtasks.
    """
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    job = AuditedFlights(GeneratorSource(flight, RECORDS), RECORDS, tmp_path, FAULTS_PER_JOB)
    outcome = await KillLoop(setting, job, random.Random(seed)).run()
    print_table([outcome])
    assert job.found() == {}
    assert outcome.rows == aggregates_of(map(flight, range(RECORDS)))
    assert len(job.restored()) >= 1


def test_the_audit_finds_each_fault(tmp_path: Path) -> None:
    """The audit finds each fault, so that an audit without findings is evidence."""
    numbered = Numbered(tmp_path / "restored")
    records = list(map(numbered.map, map(flight, range(1_000))))
    pair = records[100][1:3]
    later = next(place for place in range(101, 200) if records[place][1:3] == pair)
    records[100], records[later] = records[later], records[100]
    *others, load, checksum = records[200]
    records[200] = (*others, load[:-1] + b"?", checksum)
    records.insert(310, records[300])
    del records[400]
    environment = StreamExecutionEnvironment().set_parallelism(1)
    by_id = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(id_of)
    stream = environment.from_source(CollectionSource(records))
    audited = stream.assign_timestamps_and_watermarks(by_id).key_by(route)
    audited.process(Audit(tmp_path / "found")).sink_to(CollectSink()).name("rows")
    result = run_job(environment.job_graph("audit"), CONFIG)
    rows = [row[-len(FAULTS) :] for row in result.collected["rows"]]
    assert dict(zip(FAULTS, map(sum, zip(*rows, strict=True)), strict=True)) == {
        "lost": 1,
        "duplicated": 1,
        "out_of_order": 1,
        "corrupt": 1,
    }
    # a late record was first noted as lost
    found = AuditedFlights(CollectionSource(()), 0, tmp_path, 0).found()
    assert found == {"lost": 2, "duplicated": 1, "out_of_order": 1, "corrupt": 1}
