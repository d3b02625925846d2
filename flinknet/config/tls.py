"""TLS of a cluster: the certificate of a process, and the authorities that it trusts."""

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

    TLS is on if ``certificate``, ``private_key`` and ``authority`` name files; ``flinknet certs``
    creates them.
    """

    certificate: str = ""
    """PEM file with this process's certificate, followed by intermediate certificates.

    The certificate of a worker has the worker's id among its DNS names. ``*`` in such a name stands
    for any characters. "worker-*" includes all workers of a launched cluster, also worker-0.1,
    which replaces worker-0. Flink: security.ssl.internal.keystore.
    """

    private_key: str = ""
    """PEM file with the key of the certificate, without a password.

    Only its owner may read it (mode 0600).
    """

    authority: str = ""
    """PEM file with the certificates of the authorities that this process trusts.

    Choose an authority for the cluster alone, because each of its certificates lets a process join.
    Flink: security.ssl.internal.truststore.
    """

    pinned: str = ""
    """SHA-256 fingerprints of the accepted certificates; empty for all of the authority's.

    They are hexadecimal digits, separated by commas. Flink: security.ssl.internal.cert.fingerprint.
    """

    coordinator_name: str = ""
    """Name required in the coordinator's certificate; empty for the host of its address."""

    http_clients: Literal["certificate", "token"] = "certificate"
    """Authentication of clients of REST, page and metrics, in addition to their token.

    "certificate" requires a certificate of the authority, as for workers. "token" requires none,
    for browsers. Flink: security.ssl.rest.authentication-enabled.
    """

    reload_interval_ms: float = 10_000.0
    """Interval between checks of the files for changes.

    New connections use changed files; existing connections are kept. A renewed certificate is thus
    in use long before the old one expires.
    """

    def __post_init__(self) -> None:
        check_fields(self)
        named = (self.certificate, self.private_key, self.authority)
        require(
            all(named) or not any(named),
            "TLS needs certificate, private_key and authority together: set all three, or none",
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
        """The pinned fingerprints, in lower case and without colons."""
        written = self.pinned.lower().replace(":", "")
        return frozenset(filter(None, (one.strip() for one in written.split(","))))
