"""Errors with the channel that they end, and their form on the wire."""

from __future__ import annotations

import copy
import pickle

import pytest

from flinknet.errors import (
    ErrorCode,
    FlinknetError,
    HandshakeError,
    KeptError,
    PartitionNotFoundError,
    PartitionRequestTimeoutError,
    ProducerFailedError,
    RemoteError,
    RemoteProtocolError,
    RemoteTransportError,
    remote_error,
)

CHANNEL = "channel 3 (p[0] at 127.0.0.1:1) of gate merge"
OTHER = "channel 1 (q[2] at 127.0.0.1:2) of gate sink"


@pytest.mark.parametrize(
    "kind", [RemoteTransportError, PartitionRequestTimeoutError, ProducerFailedError]
)
def test_an_error_of_a_channel_says_which_and_stays_what_it_is(kind: type[FlinknetError]) -> None:
    cause = OSError("the cable")
    error = kind("it is gone")
    error.__cause__ = cause
    named = error.of_channel(CHANNEL)
    assert type(named) is kind
    assert str(named) == f"{CHANNEL}: it is gone"
    assert named.__cause__ is cause
    assert str(error) == "it is gone", "the same error ends other channels, too"


def test_an_error_keeps_where_it_was_raised_and_what_it_knows() -> None:
    try:
        raise HandshakeError("no")
    except HandshakeError as raised:
        error = raised
    error.may_pass = True
    error.add_note("a note")
    named = error.of_channel(CHANNEL)
    assert (named.may_pass, named.code, named.__notes__) == (True, error.code, ["a note"])
    assert named.__traceback__ is error.__traceback__ is not None


def test_an_error_names_its_channel_once() -> None:
    named = RemoteTransportError("lost").of_channel(CHANNEL)
    assert named.of_channel(CHANNEL) is named
    by_itself = RemoteTransportError(f"{CHANNEL} received buffer 2, expected 1")
    assert by_itself.of_channel(CHANNEL) is by_itself
    unnamed = RemoteTransportError("lost")
    assert unnamed.of_channel(None) is unnamed


def test_an_error_that_is_passed_on_says_how_it_came_or_forgets_it() -> None:
    first = PartitionNotFoundError("there is none").of_channel(CHANNEL)
    assert str(first.of_channel(OTHER)) == f"{OTHER}: {CHANNEL}: there is none"
    assert str(first.of_channel(None)) == "there is none"


def test_an_error_that_is_kept_is_made_anew_without_what_it_came_through() -> None:
    try:
        raise PartitionNotFoundError("there is none")
    except PartitionNotFoundError as raised:
        kept = KeptError.of(raised)
    again = kept.error()
    assert (type(again), str(again)) == (PartitionNotFoundError, "there is none")
    assert again.__traceback__ is None


NOT_OF_A_CHANNEL = {
    ErrorCode.PROTOCOL,
    ErrorCode.VERSION,
    ErrorCode.IDENTITY,
    ErrorCode.CORRUPTED,
}


@pytest.mark.parametrize("code", ErrorCode)
def test_an_error_of_a_channel_is_the_same_at_the_peer(code: ErrorCode) -> None:
    """An error of the connection or its handshake is no error of a channel."""
    error = remote_error(code, "it failed")
    assert str(error) == "it failed"
    assert error.code == (ErrorCode.INTERNAL if code in NOT_OF_A_CHANNEL else code)


def test_an_error_with_an_unknown_code_is_only_remote() -> None:
    assert type(remote_error(99, "of a later version")) is RemoteError


def test_an_error_of_a_channel_can_be_copied() -> None:
    named = RemoteTransportError("lost").of_channel(CHANNEL)
    for again in (copy.copy(named), pickle.loads(pickle.dumps(named))):
        assert (type(again), str(again)) == (RemoteTransportError, f"{CHANNEL}: lost")


def test_a_violation_keeps_its_kind_in_a_copy() -> None:
    assert RemoteProtocolError("wrong").kind == "message"
    flood = RemoteProtocolError("too many", kind="heartbeats")
    for again in (flood, copy.copy(flood), pickle.loads(pickle.dumps(flood))):
        assert (str(again), again.kind) == ("too many", "heartbeats")
