"""Certificate authorities and certificates for tests, made by flinknet's own command."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path

from flinknet.cli import certs
from flinknet.net.tls import TlsFiles

__all__ = ["Authority", "an_authority"]


class Authority:
    """A certificate authority in a directory, with the certificates that it has issued."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        certs.init(directory)

    def issue(self, name: str, *hosts: str, days: int = 90) -> None:
        """Issue a certificate, or issue one again under the same name."""
        certs.issue(self.directory, name, host=list(hosts), days=days)

    def issue_expired(self, name: str, *hosts: str) -> None:
        """Issue a certificate that has expired."""
        names = [certs._alternative(one) for one in (name, *hosts)]
        certs._issue(self.directory, certs._file_of(name), name, names, timedelta(minutes=-1))

    def files(self, name: str) -> tuple[Path, Path, Path]:
        """Return the paths of the certificate, its key and the authority's certificate."""
        file = certs._file_of(name)
        return (
            self.directory / f"{file}.pem",
            self.directory / f"{file}.key",
            self.directory / "ca.pem",
        )

    def tls(
        self, name: str, *, pinned: Sequence[str] = (), reload_interval_s: float = 10.0
    ) -> TlsFiles:
        """Return TLS files for ``name``; issue the certificate if there is none of that name."""
        if not self.files(name)[0].exists():
            self.issue(name)
        return TlsFiles(*self.files(name), pinned=pinned, reload_interval_s=reload_interval_s)


@cache
def an_authority(kind: str = "") -> Authority:
    """Return the authority of a kind; it lasts as long as this process."""
    directory = tempfile.TemporaryDirectory()
    _kept.append(directory)
    return Authority(Path(directory.name) / "authority")


_kept: list[tempfile.TemporaryDirectory[str]] = []
