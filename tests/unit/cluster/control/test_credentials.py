"""The cluster token is taken once, compared as a whole, and never shown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinknet.cluster.control.credentials import (
    TOKEN_VARIABLE,
    Role,
    authorization_headers,
    cluster_id,
    data_plane_secret,
    given_token,
    new_token,
    page_address,
    role_of,
    role_token,
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


def test_each_cluster_gets_its_own_token_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert given_token() != given_token()


def test_a_token_in_the_environment_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert not token_is_given()
    monkeypatch.setenv(TOKEN_VARIABLE, new_token())
    assert token_is_given()


def test_the_token_stands_where_a_browser_does_not_send_it() -> None:
    assert page_address("127.0.0.1:8081") == "http://127.0.0.1:8081/"
    assert page_address("127.0.0.1:8081", tls=True) == "https://127.0.0.1:8081/"
    assert page_address("127.0.0.1:8081", "secret") == "http://127.0.0.1:8081/#token=secret"


def test_only_the_whole_token_opens() -> None:
    token = new_token()
    assert role_of(authorization_headers(token), token) is Role.WORKER
    wrong = ["", token, "Bearer ", f"Bearer {token[:-1]}", f"Bearer {token}x", f"bearer {token}"]
    for header in [*wrong, "Bearer \udcff", "Bearer ünïcode"]:
        assert role_of({"Authorization": header}, token) is None
    assert role_of({}, token) is None


def test_a_role_has_a_token_of_its_own_in_each_cluster() -> None:
    token, other = new_token(), new_token()
    tokens = [role_token(token, role) for role in Role]
    assert len({*tokens, *(role_token(other, role) for role in Role)}) == 2 * len(Role)
    assert [role_of(authorization_headers(one), token) for one in tokens] == list(Role)
    assert all(role_of(authorization_headers(one), other) is None for one in tokens)


def test_a_file_has_the_token_and_its_owner_alone_may_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token in the environment takes precedence."""
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    file, token = tmp_path / "token", new_token()
    file.write_text(token + "\n")
    for mode in (0o640, 0o604, 0o620):
        file.chmod(mode)
        with pytest.raises(ConfigurationError, match="chmod 600") as refused:
            take_token(str(file))
        assert token not in str(refused.value)
    file.chmod(0o600)
    assert take_token(str(file)) == given_token(str(file)) == token
    assert token_is_given(str(file))
    monkeypatch.setenv(TOKEN_VARIABLE, named := new_token())
    assert given_token(str(file)) == take_token(str(file)) == named
    for missing in ("", str(tmp_path / "none")):
        with pytest.raises(ConfigurationError, match="cluster token"):
            take_token(missing)


def test_the_cluster_id_does_not_give_the_token_away() -> None:
    token = new_token()
    assert cluster_id(token) == cluster_id(token)
    assert cluster_id(token) != cluster_id(new_token())
    assert cluster_id(token) not in token


def test_the_secret_of_the_data_plane_follows_from_the_token_and_gives_nothing_away() -> None:
    """Every worker computes the same secret.

    It differs from the name of the cluster, which peers are told.
    """
    token = new_token()
    secret = data_plane_secret(token)
    assert secret == data_plane_secret(token) != data_plane_secret(new_token())
    assert len(secret) == 32
    assert token.encode() not in secret
    assert cluster_id(token) not in secret.hex()
