"""Authorities and certificates for tests, made by the command that users have."""

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
    """An authority in a directory, and the certificates that it has made."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        certs.init(directory)

    def issue(self, name: str, *hosts: str, days: int = 90) -> None:
        """Make a certificate, or another one of the same name."""
        certs.issue(self.directory, name, host=list(hosts), days=days)

    def issue_expired(self, name: str, *hosts: str) -> None:
        """Make a certificate that is valid no more."""
        names = [certs._alternative(one) for one in (name, *hosts)]
        certs._issue(self.directory, certs._file_of(name), name, names, timedelta(minutes=-1))

    def files(self, name: str) -> tuple[Path, Path, Path]:
        """Return certificate, key and authority."""
        file = certs._file_of(name)
        return (
            self.directory / f"{file}.pem",
            self.directory / f"{file}.key",
            self.directory / "ca.pem",
        )

    def tls(
        self, name: str, *, pinned: Sequence[str] = (), reload_interval_s: float = 10.0
    ) -> TlsFiles:
        """Return TLS with a certificate, which is made if there is none of that name."""
        if not self.files(name)[0].exists():
            self.issue(name)
        return TlsFiles(*self.files(name), pinned=pinned, reload_interval_s=reload_interval_s)


@cache
def an_authority(kind: str = "") -> Authority:
    """Return an authority that lasts as long as this process; another one for each kind."""
    directory = tempfile.TemporaryDirectory()
    _kept.append(directory)
    return Authority(Path(directory.name) / "authority")


_kept: list[tempfile.TemporaryDirectory[str]] = []
