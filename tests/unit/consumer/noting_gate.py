"""What stands in for a gate behind a channel."""

from __future__ import annotations

from flinknet.consumer.input_channel import InputChannel


class NotingGate:
    """A ChannelListener that notes which channel has something, and whether it has priority."""

    name = "gate"

    def __init__(self) -> None:
        self.notices: list[tuple[int, bool]] = []
        self.is_busy = False
        self.held: list[InputChannel] = []

    def hold_credit(self, channel: InputChannel) -> None:
        self.held.append(channel)

    def announce_held_credit(self) -> None:
        for channel in self.held:
            channel.announce_credit()

    def notify_channel_non_empty(self, channel: InputChannel, *, priority: bool = False) -> None:
        self.notices.append((channel.index, priority))
