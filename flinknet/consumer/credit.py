"""Credit: what a channel has to announce of its free buffers, and when.

Theory of operation. Every buffer that becomes free adds one to ``unannounced``; the producer may
send that many more buffers once it has been told. Each announcement is a message for both sides, so
it waits as long as nobody waits for it::

    NONE     OFFER -> OFFERED, HOLD -> HELD, ANNOUNCE -> DUE
    OFFERED  OFFER -> OFFERED, HOLD -> HELD, ANNOUNCE -> DUE, TAKE -> NONE
    HELD     OFFER -> HELD, HOLD -> HELD, ANNOUNCE -> DUE, TAKE -> NONE
    DUE      TAKE -> NONE

- It is *due*, and queued to be sent, if the producer has data, or has less credit left than waits
  here; and while the gate has enough for a slow reader to do, only when three quarters of the
  channel's buffers wait, which is when everything that the gate holds becomes due in one write. It
  may be a buffer that is polled which makes them so many: one that the channel borrows need not
  come back to it.
- Else it is *offered*: it goes along with whatever else is sent on the connection.
- While the gate is busy it is offered and *held*: the gate announces it with that of others, when
  one cannot wait or when it is not busy any more.

The channel hands its account to the connection, once for every time that it is offered or due; the
connection ``take``s the whole number when it writes, so that many recycles become one message, and
those of many channels one write. (Flink announces at once, and leaves it to its I/O thread to
collect what comes meanwhile; here there is no other thread.)

This changes with every buffer, so the table is written out in the methods; its test holds them to
it. Owned counter: ``unannounced``. Invariant: nothing is unannounced in NONE.
"""

from __future__ import annotations

from enum import Enum

from flinknet.transitions import Transitions

__all__ = ["TRANSITIONS", "ChannelCredit", "CreditEvent", "CreditState"]


class CreditState(Enum):
    """What becomes of a channel's unannounced credit."""

    NONE = "there is none"
    OFFERED = "it goes along with anything that is sent"
    HELD = "it is offered, and its gate announces it with that of others"
    DUE = "it is queued to be sent"


class CreditEvent(Enum):
    """What moves it."""

    OFFER = "there is some that nobody waits for"
    HOLD = "there is some, and the gate is busy"
    ANNOUNCE = "somebody waits for it, or the gate lets go of it"
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
    """The unannounced credit of one channel."""

    __slots__ = ("state", "unannounced")

    def __init__(self) -> None:
        self.state = _NONE
        self.unannounced = 0

    def add(self, number: int) -> None:
        """That many more buffers are free while it is due: they go along."""
        self.unannounced += number

    def settle(
        self, number: int, free: int, queued: int, backlog: int, is_busy: bool
    ) -> CreditState:
        """That many more buffers are free, or 0 if the producer has used credit; say what becomes
        of all.

        Not while it is due. ``free`` and ``queued`` are the channel's buffers, ``backlog`` is what
        the producer has to send, ``is_busy`` whether the gate has enough to do.
        """
        self.unannounced = credit = self.unannounced + number
        if is_busy and 4 * credit < 3 * (free + queued):
            self.state = _HELD
        elif is_busy or backlog or 2 * credit > free:
            self.state = _DUE
        elif self.state is _NONE:
            self.state = _OFFERED
        return self.state

    def announce(self) -> bool:
        """Make it due; whether there is any that was not."""
        if not self.unannounced or self.state is _DUE:
            return False
        self.state = _DUE
        return True

    def take(self) -> int:
        """Return the number to announce, which is told now."""
        credit, self.unannounced = self.unannounced, 0
        self.state = _NONE
        return credit

    def drop(self) -> None:
        """The free buffers are gone: there is nothing to announce any more. What has been queued is
        taken as 0."""
        self.unannounced = 0

    def check_invariants(self, free: int, *, is_busy: bool) -> None:
        """Raise AssertionError if the accounts do not add up."""
        assert self.unannounced >= 0, "negative credit is to be announced"
        assert self.state is not _NONE or not self.unannounced, "credit waits that nobody knows of"
        assert self.state is _DUE or is_busy or 2 * self.unannounced <= free, (
            "credit is held back from a producer that may need it"
        )
