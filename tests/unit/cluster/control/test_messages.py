"""Control messages survive serialization, and other bytes are refused."""

from __future__ import annotations

import msgpack
import pytest

from flinknet.cluster.control import messages
from flinknet.cluster.control.messages import Failed, Heartbeat, Progress, Register, decode, encode
from flinknet.errors import RemoteProtocolError

EXAMPLES = [
    messages.Register("worker-1", 4711, "127.0.0.1:1234", 2, "127.0.0.1:9249"),
    messages.Registered(1000.0, 250.0, 60_000.0),
    messages.Refused("no"),
    messages.Drain(),
    messages.Heartbeat(),
    messages.Printed("a job", ["a line"]),
    messages.Progress("job", 0, [[0, 1, 2, 3, 4, 5]]),
    messages.StatisticsRequest(7, 100),
    messages.StatisticsReport(7, b"packed"),
    messages.SampleStacks(7, "job", 0, 1, 100, 50.0),
    messages.DumpThreads(7),
    messages.ListOutput(7),
    messages.ReadOutput(7, "worker-0.log"),
    messages.Deploy("job", 0),
    messages.Opened("job", 0),
    messages.Run("job", 0),
    messages.Failed("job", 0, -1, -1, {"message": "boom"}),
    messages.Cancel("job", 0),
    messages.Released("job", 0),
    messages.Settle("job", 0, commit=True),
    messages.Settled("job", 0, {}),
    messages.TriggerCheckpoint("job", 0, 7, 1_000, 0, [[0, 1]]),
    messages.AcknowledgeCheckpoint("job", 0, 7, 0, 1, b"handle", [1.0, 2.0, 3.0, 4.0, 5, 6, 7]),
    messages.DeclineCheckpoint("job", 0, 7, 0, 1, "DECLINED", "not now"),
    messages.AwaitCheckpoint("job", 0, 0, 1, 6),
    messages.CompleteCheckpoint("job", 0, 7),
    messages.AbortCheckpoint("job", 0, 7),
    messages.Stop("enough"),
]


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_every_message_survives_its_bytes(message: messages.Message) -> None:
    assert decode(encode(message)) == message


def test_a_text_that_no_encoder_takes_is_written_out() -> None:
    assert decode(encode(messages.Refused("half \ud83d"))) == messages.Refused(r"half \ud83d")


def test_the_examples_are_all_there_is() -> None:
    named = {name for name in messages.__all__ if name[0].isupper() and name != "Message"}
    assert {type(message).__name__ for message in EXAMPLES} == named


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        msgpack.packb(7),
        msgpack.packb([]),
        msgpack.packb(["Halt"]),
        msgpack.packb([["Heartbeat"]]),
        msgpack.packb(["Heartbeat", 1]),
        msgpack.packb(["Run", "job"]),
        msgpack.packb(["Run", "job", "0"]),
        msgpack.packb(["Run", "job", True]),
        msgpack.packb(["Run", b"job", 0]),
        msgpack.packb(["Registered", True, 1.0, 0.0]),
        msgpack.packb(["Progress", "job", 0, {}]),
        msgpack.packb(["Failed", "job", 0, 0, 0, []]),
        encode(Heartbeat()) + b"\x00",
    ],
)
def test_anything_else_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="control message"):
        decode(data)


def test_an_error_does_not_repeat_a_long_message() -> None:
    with pytest.raises(RemoteProtocolError) as raised:
        decode(msgpack.packb(["Stop", b"x" * 100_000]))
    assert len(str(raised.value)) < 500


def test_a_whole_number_is_a_duration() -> None:
    assert decode(msgpack.packb(["Registered", 1000, 250, 0, "", 0])) == messages.Registered(
        1000, 250
    )


def test_lists_and_maps_keep_their_contents() -> None:
    progress = decode(encode(Progress("job", 3, [[0, 0, 1, 2, 3, 4], [1, 0, 1, 2, 3, 4]])))
    assert isinstance(progress, Progress)
    assert progress.rows[1] == [1, 0, 1, 2, 3, 4]
    failed = decode(encode(Failed("job", 3, 1, 0, {"pid": 1, "traceback": "..."})))
    assert isinstance(failed, Failed)
    assert failed.cause == {"pid": 1, "traceback": "..."}
    assert isinstance(decode(encode(Register("w", 1, "a:1", 1))), Register)
