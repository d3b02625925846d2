"""The cluster token: one random secret per cluster, which every caller of the control plane must
show.

It is handed to processes in the environment variable ``FLINKNET_CLUSTER_TOKEN``, never on a command
line (where every user of the machine can read it), is taken out of the environment when it is read,
so that user code and its children do not inherit it, and is compared in constant time. A launcher
makes one, unless its own environment names one that others know: a Prometheus that scrapes.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Mapping

from flinknet import machine
from flinknet.config import TOKEN_VARIABLE
from flinknet.errors import ConfigurationError

__all__ = [
    "TOKEN_VARIABLE",
    "authorization_headers",
    "cluster_id",
    "data_plane_secret",
    "given_token",
    "is_authorized",
    "new_token",
    "page_address",
    "take_token",
    "token_is_given",
    "without_token",
]

_TOKEN_BYTES = 32
_TOKEN_CHARACTERS_MIN = 16
_TOKEN = re.compile(rf"[!-~]{{{_TOKEN_CHARACTERS_MIN},}}")
"""What an HTTP header carries as it is."""
_CLUSTER_ID_CHARACTERS = 16
_DATA_PLANE_LABEL = b"flinknet data plane"


def new_token() -> str:
    """A fresh secret of 256 random bits."""
    return machine.token_urlsafe(_TOKEN_BYTES)


def take_token() -> str:
    """Take the token out of this process's environment; ConfigurationError if it is none."""
    return _checked(os.environ.pop(TOKEN_VARIABLE, ""))


def given_token() -> str:
    """The token that this process's environment names, for a cluster that others may ask, too; a
    fresh one if it names none. ConfigurationError if what it names is no token."""
    token = os.environ.get(TOKEN_VARIABLE)
    return new_token() if token is None else _checked(token)


def token_is_given() -> bool:
    """Whether the environment names the token, which then is others' secret, too."""
    return TOKEN_VARIABLE in os.environ


def _checked(token: str) -> str:
    if not _TOKEN.fullmatch(token):
        raise ConfigurationError(
            f"no cluster token: set the environment variable {TOKEN_VARIABLE} to the cluster's "
            f"secret of at least {_TOKEN_CHARACTERS_MIN} letters, digits and signs of ASCII, "
            "without a space or the end of a line"
        )
    return token


def page_address(address: str, token: str | None = None) -> str:
    """Where a browser finds the page of a coordinator at ``"host:port"``. With the token it opens
    without asking for it: that stands in the fragment, which a browser does not send."""
    return f"http://{address}/" + ("" if token is None else f"#token={token}")


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


def is_authorized(headers: Mapping[str, str], token: str) -> bool:
    """Whether the request shows the token."""
    shown = headers.get("Authorization", "").encode(errors="surrogateescape")
    return hmac.compare_digest(shown, f"Bearer {token}".encode())
