"""How long a task will take for what its inputs hold, without buffer debloating, too.

Theory of operation. What is on its way to a channel's reader are the bytes that have arrived, and
those that wait at the producer. A local channel's reader polls the producer's queue, which counts
its bytes; a remote producer says how many buffers it has, which are taken to be as large as those
that came before. The time is those bytes over the bytes that the task takes in each second in which
it does not wait for input: Flink's throughput, over the last minute. Both come from accounts that
are kept anyway, so that this costs nothing between two readings.

Channels are read in turn. So by the time that a channel's last buffer is read, each other one has
been read, too, up to as much: that is how long a barrier behind it waits.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinknet.consumer.input_channel import InputChannelStatistics

__all__ = ["buffered_bytes", "bytes_per_busy_s", "times_to_consume_ms"]


def buffered_bytes(channel: InputChannelStatistics) -> int:
    """Bytes on their way to the reader of a channel."""
    if channel.kind != "remote":
        return channel.queued_bytes
    arrived = channel.buffers_in + channel.queued_buffers
    mean = (channel.bytes_in + channel.queued_bytes) / arrived if arrived else 0.0
    return channel.queued_bytes + round(channel.backlog * mean)


def bytes_per_busy_s(bytes_per_s: float, idle_share: float) -> float | None:
    """What a task takes per second in which it does not wait for input; None while nothing was
    taken, or it only waited."""
    busy_share = 1.0 - idle_share
    return bytes_per_s / busy_share if bytes_per_s > 0 and busy_share > 0 else None


def times_to_consume_ms(
    buffered: Sequence[int], throughput: float | None
) -> Sequence[float | None]:
    """How long it takes until each of a task's inputs has been read up to what it holds now, if
    they are read in turn at so many bytes per second together; None if that is not known."""
    if throughput is None:
        return [None] * len(buffered)
    times = [0.0] * len(buffered)
    read = 0
    reached = 0
    unread = len(buffered)
    for place in sorted(range(len(buffered)), key=buffered.__getitem__):
        read += (buffered[place] - reached) * unread
        reached = buffered[place]
        unread -= 1
        times[place] = 1000 * read / throughput
    return times
