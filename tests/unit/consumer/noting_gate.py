"""A stand-in for the gate behind a channel."""

from __future__ import annotations

from flinknet.consumer.input_channel import ChannelListener, InputChannel


class NotingGate(ChannelListener):
    """A ChannelListener that records which channels have data, and with which priority."""

    def __init__(self) -> None:
        self.name = "gate"
        self.notices: list[tuple[int, bool]] = []
        self.busy = False
        self.held: list[InputChannel] = []

    def is_busy(self) -> bool:
        return self.busy

    def hold_credit(self, channel: InputChannel) -> None:
        self.held.append(channel)

    def announce_held_credit(self) -> None:
        for channel in self.held:
            channel.announce_credit()

    def notify_channel_non_empty(self, channel: InputChannel, priority: bool = False) -> None:
        self.notices.append((channel.index, priority))
