"""The records: the same for every system, and checked field by field."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from bench.exchange.cases import CASES
from bench.harness.case import Case, fingerprint, record_bytes

NAMES = {case.name: case for case in CASES}

PRINT_CHECKSUMS = """
from bench.exchange.cases import CASES
from bench.harness.case import fingerprint
print([sum(map(fingerprint, case.make_block())) for case in CASES])
"""


def test_the_cases_have_different_names() -> None:
    assert len(NAMES) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_can_be_sent_to_a_process_and_weighs_as_an_integer(case: Case) -> None:
    sent: Case = pickle.loads(pickle.dumps(case))
    block = sent.make_block()
    assert all(type(sent.weigh(record)) is int for record in block)
    if sent.key is not None:
        assert len({sent.key(record) for record in block}) > len(block) / 2


def test_every_process_makes_the_same_records() -> None:
    command = [sys.executable, "-c", PRINT_CHECKSUMS]
    printed = {subprocess.run(command, capture_output=True, check=True).stdout for _ in range(2)}
    assert len(printed) == 1


def test_the_fingerprint_sees_every_field() -> None:
    order = NAMES["dict"].make_block()[0]
    assert len(order) == 8
    changed = [{**order, field: None} for field in order]
    assert len({fingerprint(record) for record in [order, *changed]}) == 9


def test_record_sizes_are_what_the_names_say() -> None:
    sizes = {name: record_bytes(case.make_block()) for name, case in NAMES.items()}
    assert 17 < sizes["tuple"] < 19
    assert 8 < sizes["long"] <= 9
    assert sizes["bytes-1k"] == 1024 + 3
    assert sizes["bytes-32k"] == 32 * 1024 + 3
    assert 100 < sizes["dict"] < 140
