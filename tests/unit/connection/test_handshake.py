"""The handshake: every row of its state table, in both roles, and its answers to a dishonest
peer."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from flinknet.config import WireLimits
from flinknet.connection import handshake as module
from flinknet.connection.handshake import (
    TRANSITIONS,
    Admission,
    Handshake,
    HandshakeEvent,
    HandshakeState,
    certificate_name_matches,
    check_identity,
)
from flinknet.errors import HandshakeError
from flinknet.wire.handshake_messages import (
    Answer,
    Challenge,
    HandshakeKind,
    Hello,
    Opening,
    Refusal,
    Verdict,
    WorkerIdentity,
    prove,
)
from tests.unit.tables import named, shown_in

S, E = HandshakeState, HandshakeEvent
SECRET = b"secret"
DIALS, ACCEPTS = bytes(range(16)), bytes(range(16, 32))
DIALLER = WorkerIdentity("worker-1", "127.0.0.1:7001", "orders", 3, 32768)
ACCEPTER = WorkerIdentity("worker-2", "127.0.0.1:7002", "orders", 3, 32768)
NOW = 100.0


def dialling(**options: Any) -> Handshake:
    mine = options.pop("mine", DIALLER)
    known = {"secret": SECRET, "nonce": DIALS, "limits": WireLimits(), "now": NOW, **options}
    return Handshake(mine, dials=True, **known)


def accepting(**options: Any) -> Handshake:
    mine = options.pop("mine", ACCEPTER)
    known = {"secret": SECRET, "nonce": ACCEPTS, "limits": WireLimits(), "now": NOW, **options}
    return Handshake(mine, dials=False, **known)


def converse(one: Handshake, other: Handshake, piece: int = 2**16) -> None:
    """Carry bytes in both directions until neither side has output."""
    said = one.start()
    while said:
        answer = b""
        for start in range(0, len(said), piece):
            answer += other.received(said[start : start + piece])
        one, other, said = other, one, answer


def in_state(state: HandshakeState) -> Handshake:
    """Bring a handshake into a state, with the messages of the other side."""
    if state is S.AWAITS_OPENING:
        return accepting()
    if state is S.AWAITS_HELLO:
        handshake = accepting()
        handshake.received(dialling().start())
        return handshake
    handshake, other = dialling(), accepting()
    opening = handshake.start()
    if state is S.AWAITS_ANSWER:
        handshake.received(other.received(opening))
    return handshake


# -- the table -------------------------------------------------------------------------------------


def opened(handshake: Handshake) -> bytes:
    return handshake.received(Opening(DIALS).encode())


def challenged(handshake: Handshake) -> bytes:
    return handshake.received(Challenge.encode(ACCEPTS, SECRET, Opening(DIALS).encode()))


def welcomed(handshake: Handshake) -> bytes:
    opening = Opening(DIALS).encode()
    challenge = Challenge.encode(ACCEPTS, SECRET, opening)
    hello = Hello.encode(DIALLER, SECRET, opening + challenge)
    if handshake.state is S.AWAITS_HELLO:
        return handshake.received(hello)
    transcript = opening + challenge + hello
    return handshake.received(Answer.encode(Verdict.WELCOME, ACCEPTER, "", SECRET, transcript))


def turned_away(handshake: Handshake) -> bytes:
    if handshake.state in (S.AWAITS_OPENING, S.AWAITS_HELLO):
        return handshake.refuse(Verdict.FULL, "there are too many")
    return handshake.received(Refusal(Verdict.FULL).encode())


def broken(handshake: Handshake) -> bytes:
    handshake.expire()
    return b""


HAPPENS: dict[HandshakeEvent, Callable[[Handshake], bytes]] = {
    E.OPENED: opened,
    E.CHALLENGED: challenged,
    E.ACCEPTED: welcomed,
    E.REFUSED: turned_away,
    E.FAILED: broken,
}
SAYS = {
    (S.AWAITS_OPENING, E.OPENED): Challenge,
    (S.AWAITS_OPENING, E.REFUSED): Refusal,
    (S.AWAITS_HELLO, E.ACCEPTED): Answer,
    (S.AWAITS_HELLO, E.REFUSED): Refusal,
    (S.AWAITS_CHALLENGE, E.CHALLENGED): Hello,
}
KIND = {Challenge: 2, Hello: 3, Answer: 4, Refusal: 5}
OPEN = [state for state in S if state.is_open]


@pytest.mark.parametrize(
    "row", TRANSITIONS, ids=[f"{state.name} {event.name}" for state, event in TRANSITIONS]
)
def test_every_row_of_the_table_leads_where_it_says(
    row: tuple[HandshakeState, HandshakeEvent],
) -> None:
    state, event = row
    handshake = in_state(state)
    assert handshake.state is state
    said = HAPPENS[event](handshake)
    assert handshake.state is TRANSITIONS[row]
    assert (said[13] if said else None) == (KIND[SAYS[row]] if row in SAYS else None)
    ended_badly = handshake.state in (S.REFUSED, S.FAILED)
    assert (handshake.error is not None) == ended_badly
    assert (handshake.verdict is None) == (handshake.state in (*OPEN, S.FAILED))


def test_the_table_has_no_row_from_an_end_and_a_way_out_of_everything_else() -> None:
    for state, event in product(S, (E.REFUSED, E.FAILED)):
        assert ((state, event) in TRANSITIONS) == state.is_open
    assert {state for state, _ in TRANSITIONS} == set(OPEN)
    assert {event for _, event in TRANSITIONS} == set(E)
    for state in OPEN:
        assert len({event for known, event in TRANSITIONS if known is state}) == 3


MESSAGES = {
    "opening": Opening(DIALS).encode(),
    "challenge": Challenge.encode(ACCEPTS, SECRET, b""),
    "hello": Hello.encode(DIALLER, SECRET, b""),
    "answer": Answer.encode(Verdict.WELCOME, ACCEPTER, "", SECRET, b""),
    "refusal": Refusal(Verdict.FULL).encode(),
}
IN_TURN = {
    S.AWAITS_OPENING: ("opening",),
    S.AWAITS_HELLO: ("hello",),
    S.AWAITS_CHALLENGE: ("challenge", "refusal"),
    S.AWAITS_ANSWER: ("answer", "refusal"),
}


@pytest.mark.parametrize(
    ("state", "name"),
    [(state, name) for state in OPEN for name in MESSAGES if name not in IN_TURN[state]],
)
def test_a_message_in_another_state_than_its_own_is_not_answered(
    state: HandshakeState, name: str
) -> None:
    handshake = in_state(state)
    assert handshake.received(MESSAGES[name]) == b""
    assert handshake.state is S.FAILED
    assert "out of turn" in str(handshake.error)


@pytest.mark.parametrize("state", OPEN)
@pytest.mark.parametrize("garbage", [b"GET /", b"flinknet\x00\x05\xff\xff", bytes(100)])
def test_bytes_other_than_a_handshake_are_not_answered(
    state: HandshakeState, garbage: bytes
) -> None:
    handshake = in_state(state)
    assert handshake.received(garbage) == b""
    assert handshake.state is S.FAILED
    assert handshake.rest == b""


@pytest.mark.parametrize("state", OPEN)
def test_another_version_is_told_by_the_accepting_side_and_noted_by_the_other(
    state: HandshakeState,
) -> None:
    handshake = in_state(state)
    said = handshake.received(b"flinknet\x00\x09\xff\xff" + bytes(50))
    accepts = state in (S.AWAITS_OPENING, S.AWAITS_HELLO)
    assert said == (Refusal(Verdict.VERSION).encode() if accepts else b"")
    assert handshake.state is (S.REFUSED if accepts else S.FAILED)
    assert "version 9" in str(handshake.error)


@pytest.mark.parametrize("state", [S.AGREED, S.REFUSED, S.FAILED])
def test_after_the_end_nothing_more_is_said(state: HandshakeState) -> None:
    one, other = dialling(), accepting()
    if state is S.AGREED:
        converse(one, other)
    elif state is S.REFUSED:
        converse(one, accepting(mine=replace(ACCEPTER, job="other")))
        other.refuse(Verdict.FULL, "because")
    else:
        one.expire()
        other.expire()
    for handshake in (one, other):
        error = handshake.error
        assert handshake.state is state
        assert handshake.received(Opening(DIALS).encode()) == b""
        handshake.lost()
        assert (handshake.state, handshake.error) == (state, error)


# -- agreement -------------------------------------------------------------------------------------


@pytest.mark.parametrize("secret", [b"", b"secret", bytes(300)])
@pytest.mark.parametrize("piece", [1, 7, 2**16])
def test_two_that_know_the_secret_agree(secret: bytes, piece: int) -> None:
    """This holds for any split of the bytes; without a secret the messages are the same."""
    one, other = dialling(secret=secret), accepting(secret=secret)
    converse(one, other, piece)
    for handshake, theirs in ((one, ACCEPTER), (other, DIALLER)):
        assert handshake.agreed
        assert handshake.theirs == theirs
        assert handshake.verdict is Verdict.WELCOME
        assert handshake.error is None
        assert not handshake.checksums


@pytest.mark.parametrize(("one", "other"), list(product([False, True], repeat=2)))
def test_checksums_are_on_if_either_side_asks(one: bool, other: bool) -> None:
    dialler = dialling(mine=replace(DIALLER, checksums=one))
    accepter = accepting(mine=replace(ACCEPTER, checksums=other))
    converse(dialler, accepter)
    assert dialler.checksums is accepter.checksums is (one or other)


def test_bytes_behind_the_answer_are_kept() -> None:
    one, other = dialling(), accepting()
    answer = other.received(one.received(other.received(one.start())))
    assert one.received(answer + b"\x91\x05") == b""
    assert (one.rest, other.rest) == (b"\x91\x05", b"")


@pytest.mark.parametrize("early", [b"\x91", b"\x91\x0c", b"flinknet"])
def test_a_peer_that_sends_before_the_answer_is_not_answered(early: bytes) -> None:
    one, other = dialling(), accepting()
    hello = one.received(other.received(one.start()))
    assert other.received(hello + early) == b""
    assert other.state is S.FAILED
    assert f"sent {len(early)} bytes behind its hello, before the answer" in str(other.error)


def test_the_deadline_is_the_configured_one() -> None:
    handshake = dialling(limits=WireLimits(handshake_timeout_ms=250.0))
    assert handshake.deadline == NOW + 0.25
    handshake.expire()
    assert "did not complete the handshake within 0.25 s" in str(handshake.error)


def test_a_socket_that_is_lost_is_an_error() -> None:
    handshake = in_state(S.AWAITS_ANSWER)
    handshake.lost()
    assert "closed the connection during the handshake" in str(handshake.error)


# -- disagreement ----------------------------------------------------------------------------------


def test_the_accepting_side_proves_itself_first() -> None:
    """A peer without the secret therefore never learns the identity of the dialling side."""
    one, other = dialling(), accepting(secret=b"another")
    assert one.received(other.received(one.start())) == b""
    assert one.state is S.FAILED
    assert "does not prove that it knows the secret of this side" in str(one.error)
    assert one.theirs is other.theirs is None


def test_a_peer_without_a_proof_learns_nothing_about_the_job() -> None:
    """The refusal does not even tell whether there was another reason to refuse."""
    for identity in (DIALLER, replace(DIALLER, job="invoices"), replace(DIALLER, attempt=9)):
        other = in_state(S.AWAITS_HELLO)
        said = other.received(Hello.encode(identity, b"a guess", b""))
        assert said == Refusal(Verdict.REFUSED).encode()
        assert other.state is S.REFUSED
        assert other.theirs is None


def test_a_hello_is_good_for_one_nonce_only() -> None:
    one, other = dialling(), accepting()
    hello = one.received(other.received(one.start()))
    for nonce in (bytes(16), DIALS):
        replayed = accepting(nonce=nonce)
        replayed.received(Opening(DIALS).encode())
        assert replayed.received(hello) == Refusal(Verdict.REFUSED).encode()


def test_no_proof_of_one_side_is_good_for_the_other() -> None:
    """A peer without the secret may echo all messages, or forward them to another accepting side.

    It learns and proves nothing by it.
    """
    one = dialling()
    assert one.received(one.start()) == b""
    assert one.state is S.FAILED
    first, second = accepting(), accepting(nonce=bytes(16))
    first.received(Opening(ACCEPTS).encode())
    challenge = second.received(Opening(ACCEPTS).encode())
    proof_of_another = challenge[-32:]
    hello = Hello.encode(DIALLER, b"", b"")[:-32] + proof_of_another
    assert first.received(hello) == Refusal(Verdict.REFUSED).encode()


def test_a_changed_bit_on_the_way_prevents_the_agreement() -> None:
    """A changed bit of any message, in either direction, prevents the agreement."""
    one, other = dialling(), accepting()
    opening = one.start()
    challenge = other.received(opening)
    hello = one.received(challenge)
    answer = other.received(hello)
    for changed, message in enumerate((opening, challenge, hello, answer)):
        for bit in range(len(message) * 8):
            spoiled = bytearray(message)
            spoiled[bit // 8] ^= 1 << bit % 8
            one, other = dialling(), accepting()
            said = one.start()
            for number, side in enumerate((other, one, other, one)):
                said = side.received(bytes(spoiled) if number == changed else said)
            assert not one.agreed, (changed, bit)


ADMISSIONS: list[tuple[Verdict, bool]] = [(Verdict.DUPLICATE, True), (Verdict.FULL, True)]


@pytest.mark.parametrize(("verdict", "may_pass"), ADMISSIONS)
def test_the_owner_may_refuse_a_valid_peer(verdict: Verdict, may_pass: bool) -> None:
    asked: list[WorkerIdentity] = []

    def admit(theirs: WorkerIdentity) -> tuple[Verdict, str]:
        asked.append(theirs)
        return verdict, "not now"

    admission: Admission = admit
    one, other = dialling(), accepting(admit=admission)
    converse(one, other)
    assert asked == [DIALLER]
    for handshake in (one, other):
        assert handshake.state is S.REFUSED
        assert handshake.verdict is verdict
        assert isinstance(handshake.error, HandshakeError)
        assert handshake.error.may_pass is may_pass
        assert "not now" in str(handshake.error)


def test_the_owner_is_not_asked_about_an_invalid_peer() -> None:
    def admit(theirs: WorkerIdentity) -> tuple[Verdict, str]:
        raise AssertionError(theirs)

    one, other = dialling(mine=replace(DIALLER, job="invoices")), accepting(admit=admit)
    converse(one, other)
    assert one.verdict is other.verdict is Verdict.IDENTITY
    assert "this worker serves job 'orders', not 'invoices'" in str(one.error)
    assert one.error is not None
    assert not one.error.may_pass


@pytest.mark.parametrize(
    ("verdict", "may_pass"),
    [(Verdict.VERSION, False), (Verdict.FULL, True), (Verdict.REFUSED, False)],
)
@pytest.mark.parametrize("state", [S.AWAITS_CHALLENGE, S.AWAITS_ANSWER])
def test_a_refusal_says_whether_to_try_again(
    state: HandshakeState, verdict: Verdict, may_pass: bool
) -> None:
    handshake = in_state(state)
    handshake.received(Refusal(verdict).encode())
    assert handshake.verdict is verdict
    assert handshake.error is not None
    assert handshake.error.may_pass is may_pass
    assert "refused the connection: it " in str(handshake.error)


# -- admission -------------------------------------------------------------------------------------

OTHERS = [
    (replace(DIALLER, job="invoices"), "this worker serves job 'orders', not 'invoices'"),
    (replace(DIALLER, job=""), "this worker serves job 'orders', not ''"),
    (replace(DIALLER, attempt=2), "this worker is at attempt 3, not 2"),
    (replace(DIALLER, attempt=4), "this worker is at attempt 3, not 4"),
    (replace(DIALLER, segment_bytes=64), "segment_bytes is 32768 here, 64 at the peer"),
    (
        replace(DIALLER, flow_control="off"),
        "flow_control is 'credit' here, 'off' at the peer: set the same",
    ),
    (replace(DIALLER, worker_id="worker-2"), "both sides have the worker id 'worker-2'"),
    (replace(DIALLER, address="127.0.0.1:7002"), "its address is '127.0.0.1:7002', which is this"),
    *(
        (replace(DIALLER, address=address), "its address is")
        for address in (
            "nonsense",
            ":7001",
            "127.0.0.1:",
            "127.0.0.1:0",
            "127.0.0.1:65536",
            "127.0.0.1:+1",
            "127.0.0.1:70_1",
            "127.0.0.1:\u0667",
            "a b:7001",
            "a\n:7001",
            "127.0.0.1:7001 ",
        )
    ),
]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"address": ""},
        {"address": "host.example:1"},
        {"address": "[::1]:65535"},
        {"worker_id": "Worker-2"},
        {"worker_id": "worker-2 "},
    ],
    ids=repr,
)
def test_workers_of_one_attempt_may_talk(changes: dict[str, Any]) -> None:
    """Names are compared byte by byte, and addresses are not resolved."""
    assert check_identity(ACCEPTER, replace(DIALLER, **changes)) == (Verdict.WELCOME, "")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda hello: hello.replace(b"\x80\x00\x00\x00\xd9", b"\x80\x00\x02\x00\xd9"),
        lambda hello: hello.replace(b"orders", b"order\xff"),
        lambda hello: hello.replace(b"\xd9\x06orders", b"\xa7\x06orders"),
        lambda hello: hello.replace(b"\x99\x03", b"\x98\x03"),
    ],
    ids=["another flow control", "no UTF-8", "another marker", "another array"],
)
def test_a_hello_of_another_form_is_not_answered_though_it_is_proved(
    spoil: Callable[[bytes], bytes],
) -> None:
    one = in_state(S.AWAITS_HELLO)
    opening = Opening(DIALS).encode()
    challenge = Challenge.encode(ACCEPTS, SECRET, opening)
    good = Hello.encode(DIALLER, SECRET, opening + challenge)
    spoilt = spoil(good[:-32])
    assert spoilt != good[:-32]
    proof = prove(HandshakeKind.HELLO, SECRET, opening + challenge + spoilt)
    assert one.received(spoilt + proof) == b""
    assert one.state is S.FAILED


@pytest.mark.parametrize(("theirs", "reason"), OTHERS)
def test_others_may_not(theirs: WorkerIdentity, reason: str) -> None:
    verdict, said = check_identity(ACCEPTER, theirs)
    assert verdict is Verdict.IDENTITY
    assert said.startswith(reason)


def test_the_dialling_side_judges_as_well() -> None:
    opening = Opening(DIALS).encode()
    for theirs in (replace(ACCEPTER, job="invoices"), replace(ACCEPTER, worker_id="worker-1")):
        one = in_state(S.AWAITS_ANSWER)
        challenge = Challenge.encode(ACCEPTS, SECRET, opening)
        hello = Hello.encode(DIALLER, SECRET, opening + challenge)
        transcript = opening + challenge + hello
        one.received(Answer.encode(Verdict.WELCOME, theirs, "", SECRET, transcript))
        assert one.state is S.FAILED
        assert "answered as another worker" in str(one.error)


# -- names that a certificate vouches for ----------------------------------------------------------


def vouching(handshake: Handshake, *names: str) -> Handshake:
    handshake.require_certificate_name(names)
    return handshake


def test_a_peer_whose_certificate_has_its_name_is_welcome() -> None:
    one, other = vouching(dialling(), "a", ACCEPTER.worker_id), vouching(accepting(), "worker-*")
    converse(one, other)
    assert one.agreed
    assert other.agreed


@pytest.mark.parametrize("names", [("worker-9",), ("worker-11", "*-2"), ("worker-1.b",), ()])
def test_a_peer_that_dials_with_the_certificate_of_another_is_turned_away(
    names: tuple[str, ...],
) -> None:
    """This happens before the owner is asked to admit it.

    It is told the reason, as it knows the secret.
    """

    def admit(theirs: WorkerIdentity) -> tuple[Verdict, str]:
        raise AssertionError(theirs)

    one, other = dialling(), vouching(accepting(admit=admit), *names)
    converse(one, other)
    assert one.verdict is other.verdict is Verdict.IDENTITY
    shown = ", ".join(names) or "no name"
    for handshake in (one, other):
        assert handshake.state is S.REFUSED
        assert f"its certificate is for {shown!r}, but its id is 'worker-1'" in str(handshake.error)


def test_an_error_of_the_transport_ends_a_handshake_without_an_answer() -> None:
    one = dialling()
    one.start()
    one.reject(HandshakeError("its certificate is not pinned"))
    assert one.state is S.FAILED
    assert not one.error.may_pass  # type: ignore[union-attr]
    assert one.received(b"anything") == b""


def test_a_peer_that_accepts_with_the_certificate_of_another_is_given_up() -> None:
    one, other = vouching(dialling(), "worker-9"), accepting()
    converse(one, other)
    assert one.state is S.FAILED
    assert "its certificate is for 'worker-9', but its id is 'worker-2'" in str(one.error)


@pytest.mark.parametrize(
    ("name", "worker_id", "stands"),
    [
        ("worker-0", "worker-0", True),
        ("worker-0", "worker-00", False),
        ("worker-*", "worker-0", True),
        ("worker-*", "worker-0.1", True),
        ("worker-*", "coordinator", False),
        ("*.workers", "a.workers", True),
        ("*.workers", "a.worker", False),
        ("*", "anything", True),
        ("worker.0", "worker-0", False),
        ("", "worker-0", False),
    ],
)
def test_a_star_in_a_name_stands_for_any_letters(name: str, worker_id: str, stands: bool) -> None:
    assert certificate_name_matches(name, worker_id) is stands


def test_the_docstring_shows_the_table() -> None:
    assert shown_in(module.__doc__) == named(TRANSITIONS)


@pytest.mark.parametrize(
    ("state", "event"), [pair for pair in product(S, E) if pair not in TRANSITIONS]
)
def test_an_event_that_is_not_in_the_table_is_refused(
    state: HandshakeState, event: HandshakeEvent
) -> None:
    handshake = accepting()
    handshake.state = state
    with pytest.raises(AssertionError, match="must not happen"):
        handshake._become(event)
    assert handshake.state is state


def test_a_peer_that_has_sent_bytes_is_not_silent() -> None:
    handshake = accepting()
    assert handshake.is_silent
    handshake.received(Opening(DIALS).encode()[:1])
    assert not handshake.is_silent


# -- log -------------------------------------------------------------------------------------------


def test_both_sides_log_how_they_agree(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "flinknet.connection")
    converse(dialling(peer="127.0.0.1:7002"), accepting(peer="127.0.0.1:50000"))
    assert caplog.messages == [
        "127.0.0.1:7002: handshake AWAITS_CHALLENGE",
        "127.0.0.1:50000: handshake AWAITS_OPENING",
        "127.0.0.1:50000 (unknown): handshake AWAITS_HELLO",
        "127.0.0.1:7002 (unknown): handshake AWAITS_ANSWER",
        "127.0.0.1:50000 (worker-1): handshake AGREED",
        "127.0.0.1:7002 (worker-2): handshake AGREED",
    ]


def test_a_refusal_is_logged_with_its_reason_and_a_printable_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "flinknet.connection")
    one = dialling(mine=replace(DIALLER, worker_id="\x1b[2J", job="invoices"), peer="there")
    converse(one, accepting(peer="here"))
    reason = "this worker serves job 'orders', not 'invoices'"
    assert caplog.messages[-2:] == [
        f"here (\\x1b[2J): handshake REFUSED: here was refused: {reason}",
        f"there (worker-2): handshake REFUSED: there refused the connection: {reason}",
    ]


def test_a_handshake_that_takes_too_long_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "flinknet.connection")
    accepting(peer="here").expire()
    assert caplog.messages[-1].startswith(
        "here (unknown): handshake FAILED: here did not complete the handshake within"
    )
