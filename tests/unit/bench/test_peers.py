"""The systems of the family ``peers``, their records, and the output."""

from __future__ import annotations

import pickle
from dataclasses import replace
from io import StringIO
from pathlib import Path

import matplotlib.image
import pyarrow as pa
import pytest
from rich.console import Console

from bench.harness.case import Case, Tally, fingerprint
from bench.harness.contest import Absence, Entrant, run_case
from bench.harness.pinning import Pinning
from bench.harness.trial import Measurement, Plan
from bench.peers import pure
from bench.peers.arrow_flight import form_of
from bench.peers.cases import CASES, COLUMNAR, KEYBY, PING_PONG, RECORD_CASES
from bench.peers.codec import END, PAYLOADS, codec_of
from bench.peers.columns import ROW_CASES, ColumnBlock, tally_of
from bench.peers.family import PeersFamily
from bench.peers.roster import FLINKNET, PEERS, Peer
from tests.unit.bench.contests import SELECTION, TUPLE, Log, contest, entrant, measured, trips

BY_NAME = {peer.name: peer for peer in PEERS}


def test_the_systems_have_the_names_of_the_contract() -> None:
    assert FLINKNET.name == "flinknet"
    assert set(BY_NAME) == {
        "arrow-flight",
        "dask",
        "flink",
        "grpc.aio",
        "pyzmq",
        "pyzmq-asyncio",
        "sockets",
        "stream",
        "websockets",
    }


@pytest.mark.parametrize("peer", [FLINKNET, *PEERS], ids=lambda peer: peer.name)
def test_every_peer_takes_part_in_a_case_or_says_why_not(peer: Peer) -> None:
    for case in CASES:
        entered = peer.enter(case)
        assert {each.system for each in entered} == {peer.name}
        absent = [each for each in entered if isinstance(each, Absence)]
        assert entered
        assert not absent or (len(entered) == 1 and absent[0].reason)


def test_flinknet_is_in_every_case_and_flink_in_all_of_records() -> None:
    assert not any(isinstance(each, Absence) for case in CASES for each in FLINKNET.enter(case))
    for case in (*RECORD_CASES, KEYBY):
        entered = [str(each) for each in BY_NAME["flink"].enter(case)]
        assert entered[:2] == ["flink default", "flink parallel-gc"]
        assert entered[2:] == ["flink large-buffers"] * (case.name in PAYLOADS)


def test_a_job_is_compared_with_flinks_where_records_are_small() -> None:
    entered = {case.name: [str(each) for each in FLINKNET.enter(case)] for case in CASES}
    jobs = [name for name, names in entered.items() if "flinknet job" in names]
    assert jobs == ["tuple", "keyby"]


def test_who_does_not_sleep_is_compared_with_a_stream_that_does_not() -> None:
    entered = [str(each) for peer in (FLINKNET, *PEERS) for each in peer.enter(PING_PONG)]
    busy = [name for name in entered if name.endswith(" busy-poll")]
    assert busy == ["flinknet busy-poll", "stream busy-poll"]
    assert {"flinknet record", "stream record"} <= set(entered)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_can_be_sent_to_a_process_and_weighs_as_an_integer(case: Case) -> None:
    sent: Case = pickle.loads(pickle.dumps(case))
    assert all(type(sent.weigh(record)) is int for record in sent.make_block())


def test_the_fingerprint_of_a_record_batch_is_of_its_values() -> None:
    batch = COLUMNAR.make_block()[0]
    arrived = pa.ipc.read_record_batch(batch.serialize(), batch.schema)
    assert fingerprint(arrived) == fingerprint(batch)
    for column in range(batch.num_columns):
        values = batch.column(column).to_pylist()
        values[-1] += 1
        changed = batch.set_column(
            column, batch.schema.field(column), pa.array(values, batch.schema.types[column])
        )
        assert fingerprint(changed) != fingerprint(batch)


@pytest.mark.parametrize("case", RECORD_CASES, ids=lambda case: case.name)
def test_messages_and_batches_carry_every_record(case: Case) -> None:
    block = case.make_block()
    pack, unpack = codec_of(case)
    messages = [pack(record) for record in block]
    assert END not in messages
    assert [unpack(message) for message in messages] == list(block)
    assert (messages == list(block)) == (case.name in PAYLOADS)
    form = form_of(case, "bulk")
    tallies = [form.tally(batch, fingerprint) for batch in form.to_batches(block)]
    assert tallies == [Tally(len(block), sum(map(fingerprint, block)))]


@pytest.mark.parametrize("name", ROW_CASES)
def test_columns_weigh_what_their_rows_do(name: str) -> None:
    (case,) = (case for case in CASES if case.name == name)
    block = case.make_block()
    (batch,) = ColumnBlock(case).of(block)
    for weigh in (case.weigh, fingerprint):
        assert tally_of(case, batch, weigh) == Tally(len(block), sum(map(weigh, block)))


def test_batches_that_are_the_records_stay_as_they_are() -> None:
    block = COLUMNAR.make_block()
    assert ColumnBlock(COLUMNAR).of(block) is block
    assert tally_of(COLUMNAR, block[0], COLUMNAR.weigh) == Tally(1, COLUMNAR.weigh(block[0]))


def test_the_figure_has_a_panel_for_each_case(tmp_path: Path) -> None:
    one_way = contest(entrant("flinknet"), entrant("pyzmq"), Absence("flink", "no Java"))
    round_trips = run_case(
        "peers",
        PING_PONG,
        [entrant("flinknet", trips(30.0)), entrant("pyzmq", trips(30.0))],
        SELECTION,
        Log(),
    )
    heights = []
    for rows in (one_way, one_way + round_trips):
        PeersFamily().draw(rows, tmp_path / "peers.png")
        heights.append(matplotlib.image.imread(tmp_path / "peers.png").shape)
    assert heights[1][1] > heights[0][1] * 1.5


def test_round_trips_are_compared_with_each_form_of_flinknet() -> None:
    entered = [
        entrant("flinknet", trips(30.0)),
        replace(entrant("flinknet", trips(15.0)), variant="busy-poll"),
        entrant("stream", trips(20.0)),
    ]
    console = Console(width=120, record=True, file=StringIO())
    PeersFamily().print(run_case("peers", PING_PONG, entered, SELECTION, Log()), console)
    lines = console.export_text().splitlines()
    (stream,) = (line.split() for line in lines if "stream record" in line)
    assert stream[-3:] == ["1.50x", "0.75x", "yes"]


def test_plain_python_runs_what_is_compared_with_flink() -> None:
    variants = [each.variant for each in FLINKNET.enter(TUPLE) if isinstance(each, Entrant)]
    assert [variant for variant in variants if pure.is_variant_name(variant)] == [
        "record pure",
        "bulk pure",
        "job pure",
        "job-bulk pure",
    ]


def test_plain_python_stands_below_what_is_compiled() -> None:
    def fast(case: Case, plan: Plan, pinning: Pinning) -> Measurement:
        once = measured(case, plan, pinning)
        return replace(once, records=4 * once.records)

    rows = contest(
        entrant("flinknet", fast),
        replace(entrant("flinknet", fast), variant="bulk"),
        replace(entrant("flinknet"), variant="record pure"),
        entrant("pyzmq"),
    )
    console = Console(width=120, record=True, file=StringIO())
    PeersFamily().print(rows, console)
    lines = console.export_text().splitlines()
    shown = [line.split() for line in lines if line.rstrip().endswith("yes")]
    assert len(shown) == 5
    assert shown[0][1:3] == shown[3][1:3] == ["flinknet", "record"]
    assert shown[4][:3] == ["flinknet", "record", "pure"]
    assert shown[4][-2] == "4.00x"
