"""Every peer of the benchmarks with two real processes and a short run; all records are checked.

The peers' packages are in the extra ``bench``. The tests fail without them.
"""

from __future__ import annotations

import pytest

from bench.harness.case import Case
from bench.harness.contest import Entrant
from bench.harness.pinning import choose_pinning
from bench.harness.trial import Plan
from bench.peers import pure
from bench.peers.cases import CASES
from bench.peers.flink.system import WARM_UP_S_MAX, WARM_UP_S_MIN
from bench.peers.pingpong.trial import RoundTrips
from bench.peers.roster import FLINKNET, PEERS, Peer
from flinknet.compiled_modules import COMPILED

pytestmark = pytest.mark.xdist_group("cores")

SHORT = Plan(runs=1, seconds=0.05, warm_up_s=0.0)
BY_NAME = {case.name: case for case in CASES}
SAMPLE = ("tuple", "bytes-1m", "keyby", "columnar", "pingpong")
ONLY = {"job": "tuple", "job-bulk": "keyby", "record pure": "keyby"}
"""The only case of some variants, which start a cluster or another Python for each run.

Together they run a job and a job with batches, one stage and two, and plain Python. Other variants
of plain Python run the same code there; ``tests/unit/bench`` runs a job so.
"""
PYTHON_PEERS = [peer for peer in PEERS if peer.name != "flink"]


def entrants(peer: Peer, case: Case) -> list[Entrant]:
    return [each for each in peer.enter(case) if isinstance(each, Entrant)]


@pytest.mark.timeout(400)  # this takes minutes on a busy machine
@pytest.mark.parametrize("peer", [FLINKNET, *PYTHON_PEERS], ids=lambda peer: peer.name)
def test_a_peer_delivers_everything_in_every_variant(peer: Peer) -> None:
    ran = 0
    for case in map(BY_NAME.__getitem__, SAMPLE):
        for entrant in entrants(peer, case):
            # compiled modules may be missing; tests/unit/bench tests these variants without them
            is_pure = pure.is_variant_name(entrant.variant)
            if is_pure and (not COMPILED or entrant.variant not in ONLY):
                continue
            if ONLY.get(entrant.variant, case.name) != case.name:
                continue
            assert entrant.version()
            measured = entrant.measure(case, SHORT, choose_pinning())
            assert measured.verified, (case.name, str(entrant))
            assert measured.records > 0
            assert isinstance(measured, RoundTrips) == (case.name == "pingpong")
            ran += 1
    assert ran


@pytest.mark.flink
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["tuple", "dict", "keyby"])
def test_flink_delivers_everything_from_one_task_manager_to_the_other(name: str) -> None:
    (flink,) = (peer for peer in PEERS if peer.name == "flink")
    entrant = entrants(flink, BY_NAME[name])[-1]
    assert "1.20" in entrant.version()
    measured = entrant.measure(BY_NAME[name], SHORT, choose_pinning())
    assert measured.verified
    assert measured.observations["edge"] == "remote"
    assert WARM_UP_S_MIN <= measured.observations["warm_up_s"] <= WARM_UP_S_MAX + 1.0
