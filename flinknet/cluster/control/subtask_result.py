"""Results of finished subtasks: counters, metrics, collected records and prepared output.

The coordinator reads the counters and limits the size. Collected records and committables are
opaque bytes to it (pickled Python objects of the job). The client that submitted the job reads the
records; the worker that commits the sinks reads the committables.

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
    # A client only reads results. It does without the modules that run a subtask, because their
    # import takes long.
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
    """Return the upload of one subtask.

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
                f"returned to the client: {text_of(error)}; map them to plain values first"
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
            f"RuntimeContext.metrics holds a value that is not plain JSON: {text_of(error)}"
        ) from error
    return body


def decode_result(body: bytes) -> dict[str, Any]:
    """Return the fields of an upload, with ``collected`` still as bytes.

    Raises ConfigurationError for a malformed body.
    """
    try:
        result = msgpack.unpackb(body)
    except Exception as error:
        raise ConfigurationError(f"the request's body is not a result: {error}") from error
    expected = {
        **dict.fromkeys(IO_METRICS, int),
        "metrics": dict,
        "collected": bytes,
        "committables": bytes,
        "checkpoint_taken": int,
    }
    if not isinstance(result, dict) or {k: type(v) for k, v in result.items()} != expected:
        raise ConfigurationError("the request's body is not a result: its fields are wrong")
    return result


def pack_results(results: Mapping[tuple[int, int], bytes]) -> bytes:
    """Return the results of several subtasks, by vertex and index, as one body."""
    body: bytes = msgpack.packb([[*subtask, result] for subtask, result in results.items()])
    return body


def unpack_results(body: bytes) -> dict[tuple[int, int], bytes]:
    """Return the results of ``pack_results``; raise ConfigurationError for a malformed body."""
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
    """Merge the collected or prepared data of subtasks, by sink, in order of the subtasks.

    Runs code of the sender: only for results of this process's own jobs.
    """
    merged: dict[str, list[Any]] = {}
    for data in filter(None, pickled):
        for sink, records in pickle.loads(data).items():  # noqa: S301 - own job
            merged.setdefault(sink, []).extend(records)
    return merged
