"""Certificates for both processes of a trial, made by the first process that needs them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from flinknet import TlsFiles
from flinknet.cli import certs

__all__ = ["bench_tls"]

_NAME = "worker-*"


def bench_tls() -> TlsFiles:
    """Return TLS files with a certificate of the trial's own authority."""
    # Both processes of a trial have the same parent, so they find the same place.
    place = Path(tempfile.gettempdir()) / f"flinknet-bench-{os.getppid()}"
    if not place.exists():
        making = place.with_suffix(f".{os.getpid()}")
        with redirect_stdout(StringIO()):
            certs.init(making)
            certs.issue(making, _NAME)
        # Renaming is atomic, so the other process never finds a partial directory.
        making.rename(place)
        atexit.register(shutil.rmtree, place, ignore_errors=True)
    return TlsFiles(place / "worker-any.pem", place / "worker-any.key", place / "ca.pem")
