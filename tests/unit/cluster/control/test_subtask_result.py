"""The uploads of finished subtasks: bounded, checked, and joined by sink."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgpack
import pytest

from flinknet.cluster.control.subtask_result import (
    check_collected_bytes,
    decode_result,
    encode_result,
    merge_by_sink,
    pack_results,
    unpack_results,
)
from flinknet.errors import ConfigurationError, JobError, SerializationError
from flinknet.metrics.io_metrics import IO_METRICS
from flinknet.runtime.subtask import SubtaskResult

LIMIT = 10_000


def result(collected: dict[str, list[Any]], metrics: dict[str, Any] | None = None) -> SubtaskResult:
    return SubtaskResult(1, 2, 3, 4, 5, 6, 7, collected=collected, metrics=metrics or {})


def test_a_result_survives_its_bytes() -> None:
    """Collected records may be any Python objects, as they need not have crossed a channel."""
    records = [("a", 1), {2.5}, datetime(2026, 1, 1, tzinfo=UTC), None]
    fields = decode_result(encode_result(result({"Collect": records}, {"Map": {"n": 1}}), LIMIT))
    assert {name: fields[name] for name in ("records_in", "records_out")} == {
        "records_in": 1,
        "records_out": 2,
    }
    assert (fields["bytes_in"], fields["bytes_out"]) == (3, 4)
    times = [fields[f"{state}_time_ms"] for state in ("idle", "busy", "backpressured")]
    assert times == [5, 6, 7]
    assert fields["metrics"] == {"Map": {"n": 1}}
    assert merge_by_sink([fields["collected"]]) == {"Collect": records}


def test_records_are_joined_by_sink_in_order_of_the_subtasks() -> None:
    uploads = [
        decode_result(encode_result(result(collected), LIMIT))["collected"]
        for collected in ({"one": [1, 2]}, {}, {"two": [9], "one": [3]})
    ]
    assert merge_by_sink(uploads) == {"one": [1, 2, 3], "two": [9]}


def test_results_of_several_subtasks_survive_their_bytes() -> None:
    results = {(0, 3): b"one", (12, 4095): b""}
    assert unpack_results(pack_results(results)) == results


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", *map(msgpack.packb, ([1], [[1, 2]], [["0", 1, b""]], [[0, 1, "text"]]))]
)
def test_a_body_that_holds_no_results_is_refused(body: bytes) -> None:
    with pytest.raises(ConfigurationError, match="the request's body holds no results"):
        unpack_results(body)


def test_the_error_about_too_many_bytes_names_the_option_and_a_remedy() -> None:
    with pytest.raises(JobError, match=r"cluster.collect_bytes_max = 10000.*Parquet sink"):
        encode_result(result({"Collect": ["x" * LIMIT]}), LIMIT)
    check_collected_bytes(LIMIT, LIMIT)
    with pytest.raises(JobError):
        check_collected_bytes(LIMIT + 1, LIMIT)


def test_records_that_cannot_travel_name_their_sink() -> None:
    with (
        Path(os.devnull).open("rb") as file,
        pytest.raises(SerializationError, match=r"collect sink 'Collect'.*plain values"),
    ):
        encode_result(result({"Collect": [file]}), LIMIT)


def test_metrics_must_be_plain() -> None:
    with pytest.raises(SerializationError, match=r"metrics.*plain JSON"):
        encode_result(result({}, {"Map": {"set": {1, 2}}}), LIMIT)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        msgpack.packb([]),
        msgpack.packb({}),
        encode_result(result({}), LIMIT) + b"\x00",
        msgpack.packb(dict.fromkeys(IO_METRICS, 1.5) | {"metrics": {}, "collected": b""}),
    ],
)
def test_a_body_that_is_no_result_is_refused(body: bytes) -> None:
    with pytest.raises(ConfigurationError, match="not a result"):
        decode_result(body)
