"""The cluster token, a secret of each cluster, and the tokens of roles that are derived from it.

Every caller of the control plane must send the cluster token or the token of a role. The cluster
token comes in the environment variable ``FLINKNET_CLUSTER_TOKEN`` or in a file
(``cluster.token_file``), never on a command line, which every user of the machine can read. It is
removed from the environment when it is read, so that user code and its children do not inherit it.
Tokens are compared in constant time. A launcher creates a token, unless it was given one that
others know, such as a Prometheus that scrapes.

Submitting a job means running code. So a program that only reads gets the token of a *role*
instead, which is a keyed hash of the cluster token. A process with the cluster token can compute
the tokens of all roles, and no role token reveals the cluster token.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from pathlib import Path

from flinknet import machine
from flinknet.config import TOKEN_VARIABLE
from flinknet.errors import ConfigurationError
from flinknet.net.tls import check_private

__all__ = [
    "TOKEN_VARIABLE",
    "Role",
    "authorization_headers",
    "checked_token",
    "cluster_id",
    "data_plane_secret",
    "given_token",
    "new_token",
    "page_address",
    "role_of",
    "role_token",
    "take_token",
    "token_in_file",
    "token_is_given",
    "without_token",
]

_TOKEN_BYTES = 32
_TOKEN_CHARACTERS_MIN = 16
_TOKEN = re.compile(rf"[!-~]{{{_TOKEN_CHARACTERS_MIN},}}")
"""Characters that an HTTP header carries unchanged."""
_CLUSTER_ID_CHARACTERS = 16
_DATA_PLANE_LABEL = b"flinknet data plane"
_ROLE_LABEL = b"flinknet role "


class Role(IntEnum):
    """The permissions of a token; each role includes the roles before it."""

    READ = 1
    """Look at jobs, results, metrics, logs, stacks."""
    OPERATE = 2
    """Cancel and stop jobs, write savepoints, publish names."""
    SUBMIT = 3
    """Submit jobs, which means running code as the user of the workers."""
    WORKER = 4
    """Act as a worker: the cluster token itself."""


@cache
def role_token(token: str, role: Role) -> str:
    """Return the token of a role, derived from the cluster token."""
    if role is Role.WORKER:
        return token
    raw = hmac.digest(token.encode(), _ROLE_LABEL + role.name.lower().encode(), "sha256")
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def role_of(headers: Mapping[str, str], token: str) -> Role | None:
    """Return the role of the token that a request shows, or None."""
    shown = headers.get("Authorization", "").encode(errors="surrogateescape")
    found = None
    # All roles are compared, so that the time does not reveal the role.
    for role in Role:
        if hmac.compare_digest(shown, f"Bearer {role_token(token, role)}".encode()):
            found = role
    return found


def new_token() -> str:
    """Return a new secret of 256 random bits."""
    return machine.token_urlsafe(_TOKEN_BYTES)


def take_token(token_file: str = "") -> str:
    """Take the token out of this process's environment, or read it from the file.

    Raises ConfigurationError if there is none, or if other users may read the file.
    """
    token = os.environ.pop(TOKEN_VARIABLE, None)
    return checked_token(token if token is not None else _in_file(token_file))


def given_token(token_file: str = "") -> str:
    """Return the token in this process's environment or in the file, else a new one.

    A given token is for a cluster that others may access as well. Raises ConfigurationError as
    ``take_token``.
    """
    token = os.environ.get(TOKEN_VARIABLE)
    if token is None and not token_file:
        return new_token()
    return checked_token(token if token is not None else _in_file(token_file))


def token_is_given(token_file: str = "") -> bool:
    """Return whether the token was given, so that others know it too."""
    return TOKEN_VARIABLE in os.environ or bool(token_file)


def token_in_file(token_file: str) -> str:
    """Return the token in a file that only its user may read.

    Raises ConfigurationError if there is none.
    """
    return checked_token(_in_file(token_file))


def _in_file(token_file: str) -> str:
    if not token_file:
        return ""
    check_private(Path(token_file), "the file with the cluster token")
    try:
        return Path(token_file).read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"the file with the cluster token, {token_file}, cannot be read: {error}"
        ) from error


def checked_token(token: str) -> str:
    """Return the token; raise ConfigurationError if it is not valid."""
    if not _TOKEN.fullmatch(token):
        raise ConfigurationError(
            f"no cluster token: set the environment variable {TOKEN_VARIABLE}, or the file that "
            "cluster.token_file names, to the cluster's secret of at least "
            f"{_TOKEN_CHARACTERS_MIN} ASCII characters, without spaces or newlines"
        )
    return token


def page_address(address: str, token: str | None = None, *, tls: bool = False) -> str:
    """Return the address of the web page of a coordinator at ``"host:port"``.

    With a ``token`` the page does not ask for it. The token is in the fragment, which a browser
    does not send.
    """
    return f"http{'s' if tls else ''}://{address}/" + ("" if token is None else f"#token={token}")


def without_token(page: str) -> str:
    """Return the address of a page without the token in its fragment."""
    return page.partition("#")[0]


def cluster_id(token: str) -> str:
    """Return a name of the cluster, known to all its processes, that does not reveal the token."""
    return hashlib.sha256(token.encode()).hexdigest()[:_CLUSTER_ID_CHARACTERS]


def data_plane_secret(token: str) -> bytes:
    """Return the secret with which workers of the cluster authenticate to each other.

    They do so before they exchange data. The secret does not reveal the token.
    """
    return hmac.digest(token.encode(), _DATA_PLANE_LABEL, "sha256")


def authorization_headers(token: str) -> dict[str, str]:
    """Return the headers that a caller sends with each request."""
    return {"Authorization": f"Bearer {token}"}
