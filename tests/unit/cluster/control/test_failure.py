"""Failures are described with their origin, and echoes are distinguished from causes."""

from __future__ import annotations

import json

import pytest

from flinknet.cluster.control.failure import CauseRank, FailureCause
from flinknet.errors import (
    ConsumerCancelledError,
    JobFailedError,
    LocalTransportError,
    PartitionRequestTimeoutError,
    ProducerFailedError,
    RemoteTransportError,
    SerializationError,
    WorkerLostError,
)


def caused_by(error: BaseException, text_bytes_max: int = 1000) -> FailureCause:
    return FailureCause.of_exception(
        error,
        worker_id="worker-1",
        pid=4711,
        subtask="Map (2/4)",
        text_bytes_max=text_bytes_max,
    )


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.parametrize(
    "echo",
    [
        RemoteTransportError("gone"),
        LocalTransportError("gone"),
        ProducerFailedError("it said: boom"),
        ConsumerCancelledError("nobody reads"),
        PartitionRequestTimeoutError("nobody came"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_failure_that_others_caused_is_a_symptom(echo: Exception) -> None:
    assert caused_by(echo).rank is CauseRank.SYMPTOM


@pytest.mark.parametrize(
    "origin",
    [ValueError("boom"), SerializationError("no"), SystemExit(3), ConnectionResetError("mine")],
    ids=lambda error: type(error).__name__,
)
def test_a_failure_of_the_subtask_itself_is_a_cause(origin: BaseException) -> None:
    assert caused_by(origin).rank is CauseRank.CAUSE


def test_the_origin_of_a_group_is_its_first_cause() -> None:
    group = BaseExceptionGroup(
        "several",
        [
            RemoteTransportError("an echo"),
            ExceptionGroup("inner", [ProducerFailedError("echo"), ValueError("the origin")]),
            KeyError("a later one"),
        ],
    )
    cause = caused_by(group)
    assert (cause.error_type, cause.message) == ("ValueError", "the origin")
    assert cause.rank is CauseRank.CAUSE


def test_the_description_names_the_subtask_the_worker_and_the_error() -> None:
    cause = caused_by(raised(ValueError("boom")))
    assert cause.describe() == (
        'subtask "Map (2/4)" on worker worker-1 (pid 4711) failed: ValueError: boom'
    )
    error = cause.to_error("flights")
    assert type(error) is JobFailedError
    assert str(error).startswith('job "flights" failed: subtask "Map (2/4)" on worker worker-1')
    assert "Traceback in worker worker-1:" in str(error)
    assert "raise error\nValueError: boom" in str(error).replace("    ", "")


def test_an_error_that_names_its_operator_is_not_named_twice() -> None:
    cause = caused_by(JobFailedError('operator "Map" (2/4) failed on a record of type int: ...'))
    assert 'failed: operator "Map"' in cause.describe()


def test_a_lost_worker_is_named_with_its_pid_and_end() -> None:
    cause = FailureCause.of_lost_worker("worker-1", 4711, "killed by signal 9 (SIGKILL)")
    assert cause.rank is CauseRank.CAUSE
    error = cause.to_error("flights")
    assert type(error) is WorkerLostError
    assert str(error) == (
        'job "flights" failed: worker worker-1 (pid 4711) was lost: killed by signal 9 (SIGKILL)'
    )


def test_a_failure_without_a_subtask_names_the_worker() -> None:
    cause = FailureCause.of_exception(
        ImportError("no module named flights"),
        worker_id="worker-1",
        pid=4711,
        subtask=None,
        text_bytes_max=1000,
    )
    assert cause.describe() == (
        "worker worker-1 (pid 4711) failed: ImportError: no module named flights"
    )


def test_texts_are_bounded_and_keep_the_important_part() -> None:
    """A message keeps its beginning, a traceback its end; neither is cut inside a character."""
    cause = caused_by(raised(ValueError("first " + "ü" * 5000)), text_bytes_max=256)
    assert len(cause.message.encode()) <= 256 + len(" ...")
    assert cause.message.startswith("first ü")
    assert len(cause.traceback.encode()) <= 256 + len("... ")
    assert cause.traceback.rstrip().endswith("ü")


def test_texts_are_printable() -> None:
    cause = caused_by(raised(ValueError("\ud800\x1b[2J")))
    assert cause.message == r"\ud800\x1b[2J"
    assert cause.traceback.endswith(r"ValueError: \ud800\x1b[2J" + "\n")
    assert "\n    raise error\n" in cause.traceback, "a traceback keeps its lines"


@pytest.mark.parametrize("text", ["boom", "half \ud83d"])
def test_a_cause_survives_json(text: str) -> None:
    cause = caused_by(raised(ValueError(text)))
    assert FailureCause.from_dict(json.loads(json.dumps(cause.to_dict()))) == cause


@pytest.mark.parametrize("fields", [{}, {"gravity": "CAUSE"}, {"gravity": "WORSE"}])
def test_fields_that_are_no_cause_are_refused(fields: dict[str, str]) -> None:
    with pytest.raises((KeyError, TypeError)):
        FailureCause.from_dict(fields)
