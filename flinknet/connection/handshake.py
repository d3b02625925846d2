"""The handshake: both sides prove that they know the secret, and exchange identities.

``received`` takes bytes and returns bytes to send. ``deadline`` is the time for ``expire``, and
``state`` is the progress. The four messages::

    dialling side                              accepting side
    OPENING  nonce                      ->
                                        <-     CHALLENGE  nonce, proof
    HELLO    identity, proof            ->
                                        <-     ANSWER  verdict, identity, reason, proof

The accepting side proves itself first, so the dialling side sends its identity only to a peer that
knows the secret. The accepting side sends *its* identity only after the dialling side's proof. A
peer without a valid proof gets a verdict without a reason (REFUSAL). Without a secret, the key is
empty and the messages are the same. A proof covers all bytes before it, so the last one, in ANSWER,
shows that neither side's messages were changed.

The states of the accepting side, of the dialling side, and the three ends::

    AWAITS_OPENING    OPENED -> AWAITS_HELLO, REFUSED -> REFUSED, FAILED -> FAILED
    AWAITS_HELLO      ACCEPTED -> AGREED, REFUSED -> REFUSED, FAILED -> FAILED
    AWAITS_CHALLENGE  CHALLENGED -> AWAITS_ANSWER, REFUSED -> REFUSED, FAILED -> FAILED
    AWAITS_ANSWER     ACCEPTED -> AGREED, REFUSED -> REFUSED, FAILED -> FAILED

A message with another form, or in another state than its own, is not answered: FAILED.

A proof shows that the peer knows the secret, but not which worker it is. A certificate shows that,
once the transport has checked it, and the owner passes its names to ``require_certificate_name``.
With ``admit``, the owner of the accepting side decides whether it wants an otherwise valid peer.
"""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Callable, Sequence
from enum import Enum

from flinknet.config import WireLimits
from flinknet.errors import ErrorCode, HandshakeError
from flinknet.texts import printable, text_of
from flinknet.transitions import Transitions
from flinknet.wire.handshake_messages import (
    PROOF_BYTES,
    Answer,
    Challenge,
    HandshakeKind,
    HandshakeMessage,
    Hello,
    Opening,
    Refusal,
    Verdict,
    WorkerIdentity,
    decode_handshake,
    prove,
)

__all__ = [
    "TRANSITIONS",
    "Admission",
    "Handshake",
    "HandshakeEvent",
    "HandshakeState",
    "certificate_name_matches",
    "check_identity",
]

log = logging.getLogger("flinknet.connection")

Admission = Callable[[WorkerIdentity], tuple[Verdict, str]]
"""Decides whether a valid peer is wanted: WELCOME, or DUPLICATE or FULL with a reason."""


class HandshakeState(Enum):
    """Message that a side waits for, or one of the three ends."""

    AWAITS_OPENING = "accepting, nothing received"
    AWAITS_HELLO = "accepting, challenge sent"
    AWAITS_CHALLENGE = "dialling, opening sent"
    AWAITS_ANSWER = "dialling, hello sent"
    AGREED = "both sides have agreed"
    REFUSED = "one side has refused"
    FAILED = "given up without an answer"

    @property
    def is_open(self) -> bool:
        """Whether the handshake is still in progress."""
        return self not in (self.AGREED, self.REFUSED, self.FAILED)


class HandshakeEvent(Enum):
    """Event in a handshake."""

    OPENED = "an opening arrived"
    CHALLENGED = "a challenge with a valid proof arrived"
    ACCEPTED = "a hello or answer with a valid proof arrived, and both sides agree"
    REFUSED = "one side refuses"
    FAILED = "a malformed, unexpected or late message, or an invalid proof of the accepting side"


_S, _E = HandshakeState, HandshakeEvent

TRANSITIONS: Transitions[HandshakeState, HandshakeEvent] = Transitions(
    {
        (_S.AWAITS_OPENING, _E.OPENED): _S.AWAITS_HELLO,
        (_S.AWAITS_OPENING, _E.REFUSED): _S.REFUSED,
        (_S.AWAITS_OPENING, _E.FAILED): _S.FAILED,
        (_S.AWAITS_HELLO, _E.ACCEPTED): _S.AGREED,
        (_S.AWAITS_HELLO, _E.REFUSED): _S.REFUSED,
        (_S.AWAITS_HELLO, _E.FAILED): _S.FAILED,
        (_S.AWAITS_CHALLENGE, _E.CHALLENGED): _S.AWAITS_ANSWER,
        (_S.AWAITS_CHALLENGE, _E.REFUSED): _S.REFUSED,
        (_S.AWAITS_CHALLENGE, _E.FAILED): _S.FAILED,
        (_S.AWAITS_ANSWER, _E.ACCEPTED): _S.AGREED,
        (_S.AWAITS_ANSWER, _E.REFUSED): _S.REFUSED,
        (_S.AWAITS_ANSWER, _E.FAILED): _S.FAILED,
    }
)

_MAY_PASS = frozenset((Verdict.DUPLICATE, Verdict.FULL))
_NO_PROOF = (
    "does not prove that it knows the secret of this side: give both sides the same secret, or "
    "none (the workers of a cluster have it from the cluster token)"
)


class Handshake:
    """One side of one handshake.

    ``error`` is the reason if it failed. ``verdict`` is the final verdict, sent or received.
    ``theirs`` is the peer's identity, once it has proved the secret.
    """

    def __init__(
        self,
        mine: WorkerIdentity,
        *,
        dials: bool,
        secret: bytes,
        nonce: bytes,
        limits: WireLimits,
        now: float,
        peer: str = "the peer",
        admit: Admission | None = None,
    ) -> None:
        self.state = _S.AWAITS_CHALLENGE if dials else _S.AWAITS_OPENING
        self.deadline = now + limits.handshake_timeout_ms / 1000
        self.theirs: WorkerIdentity | None = None
        self.verdict: Verdict | None = None
        self.error: HandshakeError | None = None
        self._mine = mine
        self._dials = dials
        self._secret = secret
        self._nonce = nonce  # must be new in each handshake
        self._limits = limits
        self._peer = peer
        self._admit = admit
        self._certificate_names: Sequence[str] | None = None
        self._incoming = bytearray()
        self._transcript = b""
        log.debug("%s: handshake %s", peer, self.state.name)

    @property
    def agreed(self) -> bool:
        """Whether both sides have agreed."""
        return self.state is HandshakeState.AGREED

    @property
    def is_silent(self) -> bool:
        """On the accepting side, whether nothing has been received at all."""
        return self.state is HandshakeState.AWAITS_OPENING and not self._incoming

    @property
    def checksums(self) -> bool:
        """Whether messages carry checksums after the agreement: if either side requests them."""
        return self._mine.checksums or (self.theirs is not None and self.theirs.checksums)

    @property
    def rest(self) -> bytes:
        """Bytes received behind the handshake, after the agreement.

        The accepting side has none, because the dialling side sends nothing before its WELCOME.
        """
        return bytes(self._incoming)

    # -- calls of the owner -----------------------------------------------------------------------

    def require_certificate_name(self, names: Sequence[str]) -> None:
        """Accept only a worker that one of these certificate names stands for."""
        self._certificate_names = names

    def start(self) -> bytes:
        """Return the bytes to send first: the dialling side's OPENING, or nothing."""
        return self._record_sent(Opening(self._nonce).encode()) if self._dials else b""

    def received(self, data: bytes) -> bytes:
        """Take bytes in any pieces, and return the bytes to send, including those at the end."""
        self._incoming += data
        sent = b""
        try:
            while self.state.is_open:
                decoded = decode_handshake(self._incoming, self._limits)
                if decoded is None:
                    break
                message, size = decoded
                raw = bytes(self._incoming[:size])
                del self._incoming[:size]
                sent += self._answer_to(message, raw)
        except HandshakeError as error:
            # Only the accepting side can send a refusal.
            if error.code is ErrorCode.VERSION and not self._dials:
                sent += self._refuse(Verdict.VERSION, error)
            else:
                self._fail(error)
        # A side that has refused reads on and discards until the peer closes. Closing a socket with
        # unread bytes could lose the refusal on its way to the peer.
        if self.state in (_S.REFUSED, _S.FAILED):
            self._incoming.clear()
        return sent

    def refuse(self, verdict: Verdict, reason: str) -> bytes:
        """Refuse a peer that has proved nothing yet, on the accepting side.

        Returns the bytes to send. The reason is not sent.
        """
        return self._refuse(verdict, HandshakeError(f"{self._peer} was refused: {reason}"))

    def reject(self, error: HandshakeError) -> None:
        """Fail without an answer, because of an error in the transport."""
        self._fail(error)

    def expire(self) -> None:
        """Fail at the deadline; another attempt may succeed."""
        timeout_s = self._limits.handshake_timeout_ms / 1000
        self._give_up(
            f"{self._peer} did not complete the handshake within {timeout_s:g} s", unanswered=True
        )

    def lost(self, hint: str = "") -> None:
        """Fail because the socket is gone; do nothing if the handshake has ended.

        A peer that does not serve yet, or has no room, closes the socket like this. ``hint`` names
        another possible cause.
        """
        if self.state.is_open:
            self._give_up(f"{self._peer} closed the connection during the handshake{hint}")

    def _give_up(self, reason: str, *, unanswered: bool = False) -> None:
        error = HandshakeError(reason)
        error.may_pass = True
        error.unanswered = unanswered
        self._fail(error)

    # -- the messages -----------------------------------------------------------------------------

    def _answer_to(self, message: HandshakeMessage, raw: bytes) -> bytes:
        match self.state, message:
            case _S.AWAITS_OPENING, Opening():
                self._transcript += raw
                self._become(_E.OPENED)
                return self._record_sent(
                    Challenge.encode(self._nonce, self._secret, self._transcript)
                )
            case _S.AWAITS_HELLO, Hello():
                return self._on_hello(message, raw)
            case _S.AWAITS_CHALLENGE, Challenge():
                if not self._proves(HandshakeKind.CHALLENGE, message.proof, raw):
                    raise HandshakeError(f"{self._peer} {_NO_PROOF}")
                self._become(_E.CHALLENGED)
                return self._record_sent(Hello.encode(self._mine, self._secret, self._transcript))
            case _S.AWAITS_ANSWER, Answer():
                self._on_answer(message, raw)
            case ((_S.AWAITS_CHALLENGE | _S.AWAITS_ANSWER), Refusal(verdict)):
                error = HandshakeError(
                    f"{self._peer} refused the connection: {_REASON_WITHOUT_PROOF[verdict]}"
                )
                self._refused(verdict, error)
            case _:
                raise HandshakeError(f"{self._peer} sent {type(message).__name__} out of turn")
        return b""

    def _on_hello(self, hello: Hello, raw: bytes) -> bytes:
        """Judge the dialling side's HELLO, and answer it."""
        if not self._proves(HandshakeKind.HELLO, hello.proof, raw):
            return self._refuse(Verdict.REFUSED, HandshakeError(f"{self._peer} {_NO_PROOF}"))
        if self._incoming:
            raise HandshakeError(
                f"{self._peer} sent {len(self._incoming)} bytes behind its hello, before the answer"
            )
        self.theirs = hello.identity
        verdict, reason = check_identity(self._mine, hello.identity, self._certificate_names)
        if verdict is Verdict.WELCOME and self._admit is not None:
            verdict, reason = self._admit(hello.identity)
        if verdict is Verdict.WELCOME:
            self.verdict = verdict
            self._become(_E.ACCEPTED)
        else:
            self._refused(verdict, HandshakeError(f"{self._peer} was refused: {reason}"))
        return self._record_sent(
            Answer.encode(verdict, self._mine, reason, self._secret, self._transcript)
        )

    def _on_answer(self, answer: Answer, raw: bytes) -> None:
        """Take the final decision of the accepting side."""
        if not self._proves(HandshakeKind.ANSWER, answer.proof, raw):
            raise HandshakeError(f"{self._peer} {_NO_PROOF}")
        self.theirs = answer.identity
        if answer.verdict is not Verdict.WELCOME:
            error = HandshakeError(f"{self._peer} refused the connection: {answer.reason}")
            self._refused(answer.verdict, error)
            return
        # The dialling side judges for itself whether it has reached the right worker.
        verdict, reason = check_identity(self._mine, answer.identity, self._certificate_names)
        if verdict is not Verdict.WELCOME:
            raise HandshakeError(f"{self._peer} answered as another worker: {reason}")
        self.verdict = verdict
        self._become(_E.ACCEPTED)

    def _record_sent(self, message: bytes) -> bytes:
        self._transcript += message
        return message

    def _proves(self, kind: HandshakeKind, proof: bytes, raw: bytes) -> bool:
        """Add a message to the transcript; return whether its proof is right."""
        expected = prove(kind, self._secret, self._transcript + raw[:-PROOF_BYTES])
        self._transcript += raw
        # In constant time, so that a peer cannot guess a proof byte by byte.
        return hmac.compare_digest(proof, expected)

    # -- the ends ---------------------------------------------------------------------------------

    def _refuse(self, verdict: Verdict, error: HandshakeError) -> bytes:
        self._refused(verdict, error)
        return Refusal(verdict).encode()

    def _refused(self, verdict: Verdict, error: HandshakeError) -> None:
        self.verdict = verdict
        error.may_pass = verdict in _MAY_PASS
        self.error = error
        self._become(_E.REFUSED)

    def _fail(self, error: HandshakeError) -> None:
        self.error = error
        self._become(_E.FAILED)

    def _become(self, event: HandshakeEvent) -> None:
        self.state = TRANSITIONS[self.state, event]
        name = printable(self.theirs.worker_id) if self.theirs is not None else "unknown"
        if self.error is None:
            log.debug("%s (%s): handshake %s", self._peer, name, self.state.name)
        else:
            log.debug(
                "%s (%s): handshake %s: %s",
                self._peer,
                name,
                self.state.name,
                text_of(self.error),
            )


_REASON_WITHOUT_PROOF: dict[Verdict, str] = {
    Verdict.VERSION: "it speaks another version of the protocol",
    Verdict.FULL: "it has reached its limit of connections or of handshakes in progress",
    Verdict.REFUSED: "it does not accept this side's proof of the secret",
}


def check_identity(
    mine: WorkerIdentity, theirs: WorkerIdentity, certificate_names: Sequence[str] | None = None
) -> tuple[Verdict, str]:
    """Decide whether two workers may exchange data: WELCOME, or IDENTITY and a reason.

    ``certificate_names`` holds the names in the peer's certificate, if it has shown one.
    """
    if certificate_names is not None and not any(
        certificate_name_matches(name, theirs.worker_id) for name in certificate_names
    ):
        names = ", ".join(certificate_names)[:60] or "no name"
        return (
            Verdict.IDENTITY,
            f"its certificate is for {names!r}, but its id is {theirs.worker_id[:60]!r}",
        )
    if theirs.job != mine.job:
        return (
            Verdict.IDENTITY,
            f"this worker serves job {mine.job[:60]!r}, not {theirs.job[:60]!r}",
        )
    if theirs.attempt != mine.attempt:
        return Verdict.IDENTITY, f"this worker is at attempt {mine.attempt}, not {theirs.attempt}"
    if theirs.segment_bytes != mine.segment_bytes:
        sizes = f"{mine.segment_bytes} here, {theirs.segment_bytes} at the peer"
        return Verdict.IDENTITY, f"segment_bytes is {sizes}: set the same"
    if theirs.flow_control != mine.flow_control:
        modes = f"{mine.flow_control!r} here, {theirs.flow_control!r} at the peer"
        return Verdict.IDENTITY, f"flow_control is {modes}: set the same"
    if theirs.worker_id == mine.worker_id:
        return Verdict.IDENTITY, f"both sides have the worker id {mine.worker_id[:60]!r}"
    # A malformed address could never be dialled, and this side's own would stand for itself.
    if theirs.address:
        if not _is_address(theirs.address):
            return Verdict.IDENTITY, f"its address is {theirs.address[:60]!r}, not host:port"
        if theirs.address == mine.address:
            return (
                Verdict.IDENTITY,
                f"its address is {mine.address[:60]!r}, which is this worker's own",
            )
    return Verdict.WELCOME, ""


def certificate_name_matches(name: str, worker_id: str) -> bool:
    """Return whether a certificate name stands for a worker; ``*`` matches any characters."""
    # A star matches dots too: the worker that replaces worker-0 is called worker-0.1.
    parts = (re.escape(part) for part in name.split("*"))
    return re.fullmatch(".*".join(parts), worker_id, re.DOTALL) is not None


def _is_address(text: str) -> bool:
    """Whether the text has the form of an address that can be dialled."""
    host, _, port = text.rpartition(":")
    is_port = port.isascii() and port.isdigit() and 1 <= int(port) <= 65535
    return bool(host) and host.isprintable() and " " not in host and is_port
