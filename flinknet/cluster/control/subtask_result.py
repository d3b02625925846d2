"""What a finished subtask sends back: counters, metrics, the records of its collect sinks, and what
its two-phase sinks have prepared.

The coordinator reads the counters and bounds the size; collected records and committables stay
opaque bytes to it (they are Python objects of the job, pickled). The records are read by the client
that submitted the job, the committables by the worker that commits them.

A worker sends the results of several subtasks together (``pack_results``).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgpack

from flinknet.errors import ConfigurationError, JobError, SerializationError
from flinknet.graph.pickler import dumps
from flinknet.metrics.io_metrics import IO_METRICS
from flinknet.texts import text_of

if TYPE_CHECKING:
    # A client only reads results: it does without what runs a subtask, which takes long to import.
    from flinknet.runtime.subtask import SubtaskResult

__all__ = [
    "check_collected_bytes",
    "decode_result",
    "encode_result",
    "merge_by_sink",
    "pack_results",
    "unpack_results",
]


def encode_result(result: SubtaskResult, collect_bytes_max: int) -> bytes:
    """The upload of one subtask.

    Raises JobError if the collected records are too large, SerializationError if they cannot be
    sent.
    """
    pickled = b""
    if result.collected:
        try:
            pickled = dumps(result.collected)
        except Exception as error:
            raise SerializationError(
                f"the records of collect sink {', '.join(map(repr, result.collected))} cannot be "
                f"brought back to the client: {text_of(error)}; map them to plain values first"
            ) from error
    check_collected_bytes(len(pickled), collect_bytes_max)
    committables = dumps(result.committables) if result.committables else b""
    try:
        body: bytes = msgpack.packb(
            {
                **dict(zip(IO_METRICS, result.row(), strict=True)),
                "metrics": result.metrics,
                "collected": pickled,
                "committables": committables,
                "checkpoint_taken": result.checkpoint_taken,
            },
            unicode_errors="backslashreplace",
        )
    except TypeError as error:
        raise SerializationError(
            f"RuntimeContext.metrics holds something that is no plain JSON value: {text_of(error)}"
        ) from error
    return body


def decode_result(body: bytes) -> dict[str, Any]:
    """The upload as fields, ``collected`` still as bytes; ConfigurationError if it is none."""
    try:
        result = msgpack.unpackb(body)
    except Exception as error:
        raise ConfigurationError(f"the request's body is no result: {error}") from error
    expected = {
        **dict.fromkeys(IO_METRICS, int),
        "metrics": dict,
        "collected": bytes,
        "committables": bytes,
        "checkpoint_taken": int,
    }
    if not isinstance(result, dict) or {k: type(v) for k, v in result.items()} != expected:
        raise ConfigurationError("the request's body is no result: its fields are wrong")
    return result


def pack_results(results: Mapping[tuple[int, int], bytes]) -> bytes:
    """Return the results of several subtasks, by vertex and index, as one body."""
    body: bytes = msgpack.packb([[*subtask, result] for subtask, result in results.items()])
    return body


def unpack_results(body: bytes) -> dict[tuple[int, int], bytes]:
    """Return what ``pack_results`` has packed; ConfigurationError if this is no such body."""
    try:
        rows = msgpack.unpackb(body)
        results = {(vertex, index): result for vertex, index, result in rows}
    except Exception as error:
        raise ConfigurationError(f"the request's body holds no results: {error}") from error
    if any(
        (type(vertex), type(index), type(result)) != (int, int, bytes)
        for (vertex, index), result in results.items()
    ):
        raise ConfigurationError("the request's body holds no results: its fields are wrong")
    return results


def check_collected_bytes(collected_bytes: int, collect_bytes_max: int) -> None:
    """Raise JobError if a job's collect sinks hold more than they may."""
    if collected_bytes > collect_bytes_max:
        raise JobError(
            f"the collect sinks of the job hold {collected_bytes} bytes of records, more than "
            f"cluster.collect_bytes_max = {collect_bytes_max}: write large results with a "
            "Parquet sink, or raise that option"
        )


def merge_by_sink(pickled: Iterable[bytes]) -> dict[str, list[Any]]:
    """Join what the subtasks collected or prepared, by sink, in order of the subtasks.

    Runs code of the sender: only for results of this process's own jobs.
    """
    merged: dict[str, list[Any]] = {}
    for data in filter(None, pickled):
        for sink, records in pickle.loads(data).items():  # noqa: S301 - own job
            merged.setdefault(sink, []).extend(records)
    return merged
