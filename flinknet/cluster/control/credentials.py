"""The cluster token: one random secret per cluster, which every caller of the control plane must
show, or a token of a role, which is made from it.

The token comes in the environment variable ``FLINKNET_CLUSTER_TOKEN`` or in a file
(``cluster.token_file``), never on a command line, where every user of the machine can read it. It
is taken out of the environment when it is read, so that user code and its children do not inherit
it, and is compared in constant time. A launcher makes one, unless it was given one that others
know: a Prometheus that scrapes.

To submit a job is to run code, so a program that only looks gets less: the token of a *role*, which
is a keyed hash of the cluster token. Each process that knows the cluster token knows those of all
roles, and none gives the cluster token away.
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
"""What an HTTP header carries as it is."""
_CLUSTER_ID_CHARACTERS = 16
_DATA_PLANE_LABEL = b"flinknet data plane"
_ROLE_LABEL = b"flinknet role "


class Role(IntEnum):
    """What a token allows; each role allows what those before it do."""

    READ = 1
    """To look: at jobs, results, metrics, logs, stacks."""
    OPERATE = 2
    """To cancel and stop jobs, to write savepoints, to publish names."""
    SUBMIT = 3
    """To submit jobs, which is to run code as the user of the workers."""
    WORKER = 4
    """To be a worker: the cluster token itself."""


@cache
def role_token(token: str, role: Role) -> str:
    """Return the token of a role in the cluster whose token this is."""
    if role is Role.WORKER:
        return token
    raw = hmac.digest(token.encode(), _ROLE_LABEL + role.name.lower().encode(), "sha256")
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def role_of(headers: Mapping[str, str], token: str) -> Role | None:
    """Return the highest role whose token a request shows; None if it shows none."""
    shown = headers.get("Authorization", "").encode(errors="surrogateescape")
    found = None
    for role in Role:  # all, so that the time does not tell which
        if hmac.compare_digest(shown, f"Bearer {role_token(token, role)}".encode()):
            found = role
    return found


def new_token() -> str:
    """A fresh secret of 256 random bits."""
    return machine.token_urlsafe(_TOKEN_BYTES)


def take_token(token_file: str = "") -> str:
    """Take the token out of this process's environment, or read it from the file.

    ConfigurationError if there is none, or if other users may read the file.
    """
    token = os.environ.pop(TOKEN_VARIABLE, None)
    return checked_token(token if token is not None else _in_file(token_file))


def given_token(token_file: str = "") -> str:
    """Return the token that this process's environment or the file names, for a cluster that others
    may ask, too; a fresh one if there is neither. ConfigurationError as ``take_token``."""
    token = os.environ.get(TOKEN_VARIABLE)
    if token is None and not token_file:
        return new_token()
    return checked_token(token if token is not None else _in_file(token_file))


def token_is_given(token_file: str = "") -> bool:
    """Whether the token was given, which then is others' secret, too."""
    return TOKEN_VARIABLE in os.environ or bool(token_file)


def token_in_file(token_file: str) -> str:
    """Return the token in a file that its user alone may read; ConfigurationError if there is
    none."""
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
    """Return the token; ConfigurationError if it is none."""
    if not _TOKEN.fullmatch(token):
        raise ConfigurationError(
            f"no cluster token: set the environment variable {TOKEN_VARIABLE}, or the file that "
            "cluster.token_file names, to the cluster's secret of at least "
            f"{_TOKEN_CHARACTERS_MIN} letters, digits and signs of ASCII, without spaces or ends "
            "of lines"
        )
    return token


def page_address(address: str, token: str | None = None, *, tls: bool = False) -> str:
    """Where a browser finds the page of a coordinator at ``"host:port"``. With the token it opens
    without asking for it: that stands in the fragment, which a browser does not send."""
    return f"http{'s' if tls else ''}://{address}/" + ("" if token is None else f"#token={token}")


def without_token(page: str) -> str:
    """Return the address of a page without the token that may stand in its fragment."""
    return page.partition("#")[0]


def cluster_id(token: str) -> str:
    """A name for the cluster that all its processes know and that does not give the token away."""
    return hashlib.sha256(token.encode()).hexdigest()[:_CLUSTER_ID_CHARACTERS]


def data_plane_secret(token: str) -> bytes:
    """What the workers of the cluster prove to each other before they exchange data; it does not
    give the token away."""
    return hmac.digest(token.encode(), _DATA_PLANE_LABEL, "sha256")


def authorization_headers(token: str) -> dict[str, str]:
    """What a caller sends with each request."""
    return {"Authorization": f"Bearer {token}"}
