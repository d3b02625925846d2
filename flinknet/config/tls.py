"""TLS of a cluster: the files that say which process this is, and whom it believes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from flinknet.config.checks import check_fields, require, require_positive

__all__ = ["TlsConfig"]

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """TLS 1.3 for every connection of a cluster, with a certificate on both sides.

    It is on if ``certificate``, ``private_key`` and ``authority`` name files; ``flinknet certs``
    makes them.
    """

    certificate: str = ""
    """PEM file with this process's certificate, and behind it those between it and the authority.
    The certificate of a worker has the worker's id among its DNS names; ``*`` in such a name stands
    for any letters: "worker-*" has the workers of a launched cluster, worker-0.1, which takes the
    place of worker-0, among them. Flink: security.ssl.internal.keystore."""

    private_key: str = ""
    """PEM file with the key of the certificate, without a password. Its owner alone may read it
    (mode 0600)."""

    authority: str = ""
    """PEM file with the certificates of the authorities that this process believes. Choose an
    authority of the cluster's own: each certificate of it lets a process join. Flink:
    security.ssl.internal.truststore."""

    pinned: str = ""
    """SHA-256 fingerprints of the certificates that are accepted, in hexadecimal digits with commas
    between them; empty for every certificate of the authority. Flink:
    security.ssl.internal.cert.fingerprint."""

    coordinator_name: str = ""
    """Name that the coordinator's certificate must have; the host of the coordinator's address if
    it is empty."""

    http_clients: Literal["certificate", "token"] = "certificate"
    """What a client of REST, page and metrics shows beside its token: "certificate" wants one of
    the authority's, as workers have; "token" wants none, for browsers. Flink:
    security.ssl.rest.authentication-enabled."""

    reload_interval_ms: float = 10_000.0
    """Time after which the files are looked at again. Connections that are made later use what has
    changed, those that stand are kept. A renewed certificate is in use long before the old one
    expires."""

    def __post_init__(self) -> None:
        check_fields(self)
        named = (self.certificate, self.private_key, self.authority)
        require(
            all(named) or not any(named),
            "TLS wants certificate, private_key and authority together: set all three, or none",
        )
        for option in ("pinned", "coordinator_name"):
            require(
                self.is_on or not getattr(self, option),
                f"{option} is set, but TLS is off: set certificate, private_key and authority, too",
            )
        for fingerprint in self.fingerprints:
            require(
                _FINGERPRINT.fullmatch(fingerprint) is not None,
                f"pinned has {fingerprint[:80]!r}: write SHA-256 fingerprints, 64 hexadecimal "
                "digits each, with commas between them",
            )
        require_positive(self, "reload_interval_ms")

    @property
    def is_on(self) -> bool:
        """Whether connections of the cluster use TLS."""
        return bool(self.certificate)

    @property
    def fingerprints(self) -> frozenset[str]:
        """The certificates that are pinned, in lower case and without colons."""
        written = self.pinned.lower().replace(":", "")
        return frozenset(filter(None, (one.strip() for one in written.split(","))))
