"""The cluster token is taken once, compared whole, and never shown."""

from __future__ import annotations

import os

import pytest

from flinknet.cluster.control.credentials import (
    TOKEN_VARIABLE,
    authorization_headers,
    cluster_id,
    data_plane_secret,
    given_token,
    is_authorized,
    new_token,
    page_address,
    take_token,
    token_is_given,
)
from flinknet.errors import ConfigurationError


def test_tokens_are_long_and_never_the_same() -> None:
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 43  # 256 bits in base64


def test_a_token_is_taken_out_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    token = new_token()
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    assert take_token() == token
    assert TOKEN_VARIABLE not in os.environ


@pytest.mark.parametrize(
    "token",
    ["", "too short", 16 * "a" + "\n", "two words that are long", 16 * "é", 16 * "a" + "\udcff"],
)
def test_no_token_or_a_weak_one_is_refused(monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    with pytest.raises(ConfigurationError, match=TOKEN_VARIABLE):
        take_token()


def test_a_launcher_takes_the_token_that_others_know_and_leaves_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = new_token()
    monkeypatch.setenv(TOKEN_VARIABLE, token)
    assert given_token() == given_token() == token
    monkeypatch.setenv(TOKEN_VARIABLE, "too short")
    with pytest.raises(ConfigurationError, match=TOKEN_VARIABLE):
        given_token()


def test_without_one_each_cluster_gets_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert given_token() != given_token()


def test_whether_the_environment_names_one_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert not token_is_given()
    monkeypatch.setenv(TOKEN_VARIABLE, new_token())
    assert token_is_given()


def test_the_token_stands_where_a_browser_does_not_send_it() -> None:
    assert page_address("127.0.0.1:8081") == "http://127.0.0.1:8081/"
    assert page_address("127.0.0.1:8081", "secret") == "http://127.0.0.1:8081/#token=secret"


def test_only_the_whole_token_opens() -> None:
    token = new_token()
    assert is_authorized(authorization_headers(token), token)
    wrong = ["", token, "Bearer ", f"Bearer {token[:-1]}", f"Bearer {token}x", f"bearer {token}"]
    for header in [*wrong, "Bearer \udcff", "Bearer ünïcode"]:
        assert not is_authorized({"Authorization": header}, token)
    assert not is_authorized({}, token)


def test_the_cluster_id_does_not_give_the_token_away() -> None:
    token = new_token()
    assert cluster_id(token) == cluster_id(token)
    assert cluster_id(token) != cluster_id(new_token())
    assert cluster_id(token) not in token


def test_the_secret_of_the_data_plane_follows_from_the_token_and_gives_nothing_away() -> None:
    """Every worker computes the same; it is not what names the cluster, which peers are told."""
    token = new_token()
    secret = data_plane_secret(token)
    assert secret == data_plane_secret(token) != data_plane_secret(new_token())
    assert len(secret) == 32
    assert token.encode() not in secret
    assert cluster_id(token) not in secret.hex()
