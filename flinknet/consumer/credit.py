"""Credit: how much credit a channel announces, and when.

Every buffer that becomes free adds one to ``unannounced``. Once told, the producer may send that
many more buffers. Each announcement costs both sides a message, so it waits while the producer does
not need it::

    NONE     OFFER -> OFFERED, HOLD -> HELD, ANNOUNCE -> DUE
    OFFERED  OFFER -> OFFERED, HOLD -> HELD, ANNOUNCE -> DUE, TAKE -> NONE
    HELD     OFFER -> HELD, HOLD -> HELD, ANNOUNCE -> DUE, TAKE -> NONE
    DUE      TAKE -> NONE

- Credit is *due*, and queued to be sent, if the producer has data, or has less credit left than is
  unannounced here. While the gate has enough work for a slow reader, credit is due only when three
  quarters of the channel's buffers are unannounced. All credit that the gate holds is then sent in
  one write. A poll alone can reach this share: it shortens the queue, and a borrowed buffer need
  not return to the channel.
- Otherwise credit is *offered*: it is sent with any other output of the connection.
- While the gate is busy, credit is offered and *held*. The gate announces all held credit together
  when one channel's is due, or when the gate is no longer busy.

The channel passes its account to the connection once each time it is offered or due. The connection
``take``s the whole number when it writes. Many recycles thus become one message, and many channels
one write. (Flink announces immediately, and its I/O thread collects credit that arrives meanwhile.
flinknet has no such thread.)

The state changes with every buffer, so the methods implement the table by hand, and the test
compares them with it. Counter: ``unannounced``. Invariant: nothing is unannounced in NONE.
"""

from __future__ import annotations

from enum import Enum

from flinknet.transitions import Transitions

__all__ = ["TRANSITIONS", "ChannelCredit", "CreditEvent", "CreditState"]


class CreditState(Enum):
    """How a channel's unannounced credit will be sent."""

    NONE = "there is no credit to announce"
    OFFERED = "it is sent with the next other output"
    HELD = "it is offered, and its gate announces it together with other channels' credit"
    DUE = "it is queued to be sent"


class CreditEvent(Enum):
    """Event that changes the state."""

    OFFER = "the producer does not wait for the credit"
    HOLD = "there is credit, and the gate is busy"
    ANNOUNCE = "the producer waits for the credit, or the gate releases it"
    TAKE = "the connection writes it"


_S, _E = CreditState, CreditEvent

TRANSITIONS: Transitions[CreditState, CreditEvent] = Transitions(
    {
        (_S.NONE, _E.OFFER): _S.OFFERED,
        (_S.NONE, _E.HOLD): _S.HELD,
        (_S.NONE, _E.ANNOUNCE): _S.DUE,
        (_S.OFFERED, _E.OFFER): _S.OFFERED,
        (_S.OFFERED, _E.HOLD): _S.HELD,
        (_S.OFFERED, _E.ANNOUNCE): _S.DUE,
        (_S.OFFERED, _E.TAKE): _S.NONE,
        (_S.HELD, _E.OFFER): _S.HELD,
        (_S.HELD, _E.HOLD): _S.HELD,
        (_S.HELD, _E.ANNOUNCE): _S.DUE,
        (_S.HELD, _E.TAKE): _S.NONE,
        (_S.DUE, _E.TAKE): _S.NONE,
    }
)

_NONE = CreditState.NONE
_OFFERED = CreditState.OFFERED
_HELD = CreditState.HELD
_DUE = CreditState.DUE


class ChannelCredit:
    """Unannounced credit of one channel."""

    __slots__ = ("state", "unannounced")

    def __init__(self) -> None:
        self.state = _NONE
        self.unannounced = 0

    def add(self, number: int) -> None:
        """Add free buffers to credit that is due already; they are announced with it."""
        self.unannounced += number

    def settle(
        self, number: int, free: int, queued: int, backlog: int, is_busy: bool
    ) -> CreditState:
        """Add ``number`` free buffers, or 0 if the producer has used credit; return the new state.

        Must not be called while credit is due. ``free`` and ``queued`` are the channel's buffers.
        ``backlog`` is the number of buffers that the producer has to send, and ``is_busy`` tells
        whether the gate has enough work.
        """
        self.unannounced = credit = self.unannounced + number
        if is_busy and 4 * credit < 3 * (free + queued):
            self.state = _HELD
        # The producer has ``free - credit`` left. Less than ``credit`` may run out too soon.
        elif is_busy or backlog or 2 * credit > free:
            self.state = _DUE
        elif self.state is _NONE:
            self.state = _OFFERED
        return self.state

    def announce(self) -> bool:
        """Make the credit due; return False if there is none or it was due already."""
        if not self.unannounced or self.state is _DUE:
            return False
        self.state = _DUE
        return True

    def take(self) -> int:
        """Return the number to announce, and reset it."""
        credit, self.unannounced = self.unannounced, 0
        self.state = _NONE
        return credit

    def drop(self) -> None:
        """Drop the credit, because the free buffers are gone.

        If it has been queued already, ``take`` returns 0.
        """
        self.unannounced = 0

    def check_invariants(self, free: int, *, is_busy: bool) -> None:
        """Raise AssertionError if the accounts are inconsistent."""
        assert self.unannounced >= 0, "negative credit is to be announced"
        assert self.state is not _NONE or not self.unannounced, "unannounced credit is in no queue"
        assert self.state is _DUE or is_busy or 2 * self.unannounced <= free, (
            "credit is held back from a producer that may need it"
        )
