"""A failure in Java's serialization; ``integration/test_flink_clients.py`` has Flink read one."""

from __future__ import annotations

from base64 import b64decode

from flinknet.cluster.coordinator.jobs.serialized_throwable import failure_cause


def test_texts_stand_beside_the_object_that_holds_them() -> None:
    cause = failure_cause("CheckpointError", "no room")
    assert (cause["class"], cause["stack-trace"]) == ("CheckpointError", "no room")
    body = b64decode(cause["serialized-throwable"])
    assert body.startswith(b"\xac\xed\x00\x05sr\x00)org.apache.flink.util.SerializedThrowable")
    length = len("CheckpointError: no room")
    text = b"\x7c" + length.to_bytes(8, "big") + b"CheckpointError: no room"
    assert body.count(text) == 2, "the message and what is printed"
    assert body.endswith(b"\x7c" + (15).to_bytes(8, "big") + b"CheckpointError" + b"\x70")


def test_texts_are_written_as_java_writes_them() -> None:
    body = b64decode(failure_cause("Error", "\0 \u00fc \U0001f600")["serialized-throwable"])
    assert b"Error: \xc0\x80 \xc3\xbc \xed\xa0\xbd\xed\xb8\x80" in body
