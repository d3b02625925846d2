"""Output with checksums: the plain outbox's frames, each followed by its trailer."""

from __future__ import annotations

from flinknet.wire.buffer_header import BUFFER_PREFIX_BYTES
from flinknet.wire.checksum import TRAILER_BYTES, crc32c, decode_trailer, seal
from flinknet.wire.codec import encode
from flinknet.wire.messages import MessageType as M
from tests.unit.arrangements import put
from tests.unit.connection.joined import Joined


def arranged() -> Joined:
    """A channel that may send three buffers."""
    joined = Joined(checksums="on", buffers_per_channel=3)
    partition = joined.producer.make_partition()
    joined.gates.append(joined.consumer.make_gate(joined.produced()))
    joined.pump()
    for number in range(3):
        put(partition, 0, bytes([number]) * 5)
        partition.subpartitions[0].seal_open()
    return joined


def test_every_message_is_sealed() -> None:
    joined = arranged()
    outbox = joined.producer.session.outbox
    for _ in range(2):
        outbox.add_message(encode(M.HEARTBEAT))
    before = outbox.bytes_out
    sent = joined.producer.send()
    assert outbox.bytes_out - before == len(sent)
    heartbeat = seal(encode(M.HEARTBEAT))
    assert sent.startswith(2 * heartbeat)
    rest = memoryview(sent)[2 * len(heartbeat) :]
    frame = BUFFER_PREFIX_BYTES + 5
    assert len(rest) == 3 * (frame + TRAILER_BYTES)
    for start in range(0, len(rest), frame + TRAILER_BYTES):
        assert decode_trailer(rest, start + frame) == crc32c(rest[start : start + frame])
    joined.close()


def test_buffers_alone_are_sealed_and_a_body_is_not_copied() -> None:
    joined = arranged()
    frames = joined.producer.session.outbox.next_frames(1 << 20)
    bodies = [frame for frame in frames if isinstance(frame, memoryview)]
    assert [bytes(body) for body in bodies] == [bytes([number]) * 5 for number in range(3)]
    assert [len(frame) for frame in frames[::2]] == [
        BUFFER_PREFIX_BYTES,
        *[TRAILER_BYTES + BUFFER_PREFIX_BYTES] * 2,
        TRAILER_BYTES,
    ]
    joined.producer.link.frames_written()
    joined.close()


def test_where_nothing_waits_nothing_is_sealed() -> None:
    joined = Joined(checksums="on")
    assert joined.producer.session.outbox.next_frames(1 << 20) == []
    joined.close()
